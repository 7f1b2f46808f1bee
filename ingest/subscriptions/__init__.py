"""The subscriptions of one home: joining, leaving, what of their life is durable, what operators
do to them.

It may import `publish` and what is below it. Start with `subscription_service`.
"""
