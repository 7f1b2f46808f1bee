"""The way to durability: the pending group, its write to the journal, the commit into the table.

It may import `runtime` and `native`. Start with `group_log`, then `committer`.
"""
