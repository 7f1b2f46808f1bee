"""Messages of topics with a schema, as rows of typed tables, or rejected.

It may import `schemas` and `transforms.schema`. Start with `topic_tables`, then `typed_rows`.
"""
