"""What jobs ask a running gateway, and whether tables are of that gateway.

It may import `pipeline`, `jobs.gateway` and pyspark. Start with `own_tables`.
"""
