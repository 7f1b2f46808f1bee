"""The process: own the home or wait for it, replay, listen, serve, stop.

It may import every room of the service but `cli`. Start with `message_loop`: the way of a message,
top to bottom. Then `serve`.
"""
