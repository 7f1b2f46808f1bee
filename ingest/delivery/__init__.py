"""Performance of the dispatchers' decisions, for all subscriptions.

It may import `net`, `commit` and what is below them. Start with `delivery_service`.
"""
