"""Values and sections of AMQP 1.0 as bytes: read from bytes that may be anything, and written.

It may import `pipeline.errors`. Start with `amqp_types`; `sections` finds the parts of a message.
"""
