"""Views over the tables: pending, backlog, consumers, stuck.

It may import the transforms before it. Start with `pending`.
"""
