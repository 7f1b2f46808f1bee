"""What follows a failed delivery: how often a message was tried, when it comes again, when it is
given up.

It may import `model` and `sequences`. Start with `attempts`.
"""
