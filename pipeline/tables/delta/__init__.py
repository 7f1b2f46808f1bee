"""Delta's own protocol: entries, checkpoints, data files, stores, and the one way in which a table
gets a new version.

It may import `tables.arrow`, whose `topic_log_schema` is the table's contract. Start with
`table_writer`.
"""
