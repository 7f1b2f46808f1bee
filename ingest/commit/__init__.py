"""The way to durability: what waits, the group being written, the commit into the table.

It may import `runtime` and `native`. Start with `group_log`, then `committer`.
"""
