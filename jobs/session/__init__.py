"""A Spark session that knows Delta, the jobs' settings, and what their command lines have in
common.

Start with `session`.
"""
