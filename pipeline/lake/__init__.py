"""Placement: the log of a lake that a topic is in, by rules of patterns, and how these may change.

It may import `pipeline`, `model` and `amqp`. Start with `placement`.
"""
