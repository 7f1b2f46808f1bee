"""Messages read back from `topic_log`: page by page, by chosen sequences, by statistics.

It may import `tables.delta`. Start with `paging`.
"""
