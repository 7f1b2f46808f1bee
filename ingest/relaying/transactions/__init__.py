"""Transactions whose work is in another gateway's log: the log's owner has them under its own
numbers, and ends them. Start with `relayed_work.py`.
"""
