"""The state of every durable subscription when a gateway starts.

It may import the tables' rooms before it. Start with `snapshot`.
"""
