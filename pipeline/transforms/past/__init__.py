"""The past: moments of the log, a subscription or a topic as of one of them, and older messages
that a selector matches.

It may import the views. Start with `moment`, then `state_as_of`.
"""
