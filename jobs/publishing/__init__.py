"""The data source `topic`: a Spark query that publishes its rows, each once.

It may import `client`. Start with `topic_sink`, then `row_ids`.
"""

from distributary.jobs.publishing.topic_sink import TopicSink, register

__all__ = ["TopicSink", "register"]
