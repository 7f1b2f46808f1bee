"""Transactions as peers ask for them: declared, worked in, discharged, prepared.

It may import `subscriptions` and what is below it. Start with `coordinator`.
"""
