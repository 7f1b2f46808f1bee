"""Transactions: what is done in them, and how they end.

It may import `pipeline`, `codec` and `model`. Start with `transaction`; `prepared_transactions` has
those that wait for the word of a transaction manager.
"""
