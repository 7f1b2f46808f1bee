"""Publishing: from a link to the log, with what is refused and what is counted.

It may import `delivery` and what is below it. Start with `intake` and `relay`.
"""
