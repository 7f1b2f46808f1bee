"""The log as values: recent messages, failed attempts, counts, ids of duplicates, transactions, its
identity.

It may import `model`. Start with `recent_messages` and `transaction`.
"""
