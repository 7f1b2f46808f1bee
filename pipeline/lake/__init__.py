"""Which log of a lake a topic is in: rules of patterns, and what may change in them.

It may import `pipeline`, `model` and `amqp`. Start with `placement`.
"""
