"""The demo: a year of flights through the gateway, by clients of it, over AMQP.

An example: it isn't part of the wheel. Start with `demo`.
"""
