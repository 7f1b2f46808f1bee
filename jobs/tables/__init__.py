"""Spark's tables: made, checked, written by one process at a time, inspected by Delta's classes.

It may import `session`. Start with `spark_tables`.
"""
