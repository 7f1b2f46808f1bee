"""Transactions whose work is in another gateway's log: their owner has them, by a number of its
own, and ends them. Start with `relayed_work.py`.
"""
