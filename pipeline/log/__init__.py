"""The log as values: recent messages, cursors, counts, ids of duplicates, transactions, its
identity.

It may import `model` and `sequences`. Start with `recent_messages` and `transaction`.
"""
