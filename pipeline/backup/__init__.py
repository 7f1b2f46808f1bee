"""The content of a backup, the files that the next one copies, and states that may be copied: pure.

It may import `pipeline`, `log` and `lake`. Start with `backup_plan`.
"""
