"""The subscriptions of one home: joining, leaving, their durable events, operations on them.

It may import `publish` and what is below it. Start with `subscription_service`.
"""
