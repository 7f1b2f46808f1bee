"""Spark's tables: made, known again, written by one process at a time, asked of Delta's classes.

It may import `session`. Start with `spark_tables`.
"""
