"""What the dispatchers of all subscriptions decide, performed.

It may import `net`, `commit` and what is below them. Start with `delivery_service`.
"""
