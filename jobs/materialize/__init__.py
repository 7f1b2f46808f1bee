"""`topic_log` into Spark's tables, as a Structured Streaming query.

It may import `tables`, `session` and `upkeep`. Start with `materialize`.
"""
