"""Publishing: from a link to the log, with refusals and counts.

It may import `delivery` and what is below it. Start with `intake` and `relay`.
"""
