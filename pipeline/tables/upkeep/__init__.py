"""Upkeep: `topic_log` stays small and quick while it is written for months, one bounded step at a
time.

It may import `tables.delta` and `tables.reading`. Start with `table_upkeep`.
"""
