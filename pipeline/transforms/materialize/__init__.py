"""The log's rows as rows of `messages`, `acks`, `subscriptions`, `cursors`, `log_versions`.

It may import `transforms.schema` and `transforms.decoding`. Start with `messages`, then `cursors`.
"""
