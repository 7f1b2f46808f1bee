"""AMQP messages become columns: all messages of an Arrow batch at once, uncommon ones one by one.

It may import `codec`. Start with `in_columns`; `one_by_one` defines the result.
"""
