"""What is published, on its way to the log: where it goes, what isn't taken, what is counted.

It may import `delivery` and what is below it. Start with `intake` and `relay`.
"""
