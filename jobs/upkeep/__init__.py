"""Upkeep of Spark's tables: compaction, retention, clean-up.

It may import `tables` and `session`. Start with `spark_upkeep`.
"""
