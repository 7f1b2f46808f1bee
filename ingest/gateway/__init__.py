"""The process: own the home or wait for it, replay, listen, serve, stop.

It may import every room of the service but `cli`. Start with `serve`, then `service`.
"""
