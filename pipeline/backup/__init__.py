"""What a backup holds, what the next one copies, and which states may be copied: pure.

It may import `pipeline`, `log` and `lake`. Start with `backup_plan`.
"""
