"""Failed deliveries: counts of attempts, delays of redelivery, and giving messages up.

It may import `model` and `sequences`. Start with `attempts`.
"""
