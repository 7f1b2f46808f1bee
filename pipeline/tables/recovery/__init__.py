"""Where every durable subscription stands when a gateway starts.

It may import the tables' rooms before it. Start with `snapshot`.
"""
