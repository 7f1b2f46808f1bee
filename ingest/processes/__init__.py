"""Processes of ours beside the gateway: their start, their end, and messages to them.

It imports none of our rooms. Start with `child_process`.
"""
