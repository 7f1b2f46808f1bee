"""What keeps Spark's tables small: compaction, retention, clean-up.

It may import `tables` and `session`. Start with `spark_upkeep`.
"""
