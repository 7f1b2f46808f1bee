"""Transactions: their work, and their ends.

It may import `pipeline`, `codec` and `model`. Start with `transaction`; `prepared_transactions` has
those that wait for a transaction manager.
"""
