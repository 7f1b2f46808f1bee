"""The data source `subscription`: a Spark query that consumes like any other consumer.

It may import `client`, `cli` and `session`. Start with `source`, then `stream`.
"""

from distributary.jobs.subscription.source import SubscriptionSource, register

__all__ = ["SubscriptionSource", "register"]
