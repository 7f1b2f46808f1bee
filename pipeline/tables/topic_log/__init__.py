"""The table `topic_log`: groups of the journal become rows of one Delta commit.

It may import `tables.journal`, `tables.delta` and `tables.upkeep`. Start with `topic_log`.
"""
