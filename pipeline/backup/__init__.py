"""What a backup holds, what the next one copies, and which states may be copied: pure.

It may import `pipeline` and `log`. Start with `backup_plan`.
"""
