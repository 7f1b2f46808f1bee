"""Values of the log: recent messages, failed attempts, counts, ids of duplicates, its identity.

It may import `model`. Start with `recent_messages`.
"""
