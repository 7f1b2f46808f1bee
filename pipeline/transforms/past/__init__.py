"""What was at another time: moments of the log, a subscription or a topic as of one of them, and
what of the past a selector matches.

It may import the views. Start with `moment`, then `state_as_of`.
"""
