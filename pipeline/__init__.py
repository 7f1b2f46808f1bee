"""The domain: what a message, a subscription and a delivery are, and the rules they follow.

Files directly in this room use the standard library and each other only. They know no clock,
thread, socket, file or log: commands in, effects out, time an argument.
"""
