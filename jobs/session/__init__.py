"""A Spark session that knows Delta, the jobs' settings, and common parts of their command lines.

Start with `session`.
"""
