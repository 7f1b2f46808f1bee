"""The data source `subscription`: a Spark query that consumes like any other consumer."""

from jobs.subscription.source import SubscriptionSource, register

__all__ = ["SubscriptionSource", "register"]
