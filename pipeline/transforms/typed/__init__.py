"""Messages of topics with a schema, as rows of typed tables or of `rejected`.

It may import `codec`, `schemas`, `transforms.schema` and `transforms.materialize`. Start with
`topic_tables`, then `typed_rows`, then `body_reader`.
"""
