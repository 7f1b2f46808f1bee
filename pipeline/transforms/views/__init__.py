"""What people ask of the tables: pending, backlog, consumers, stuck, a state in the past.

It may import the transforms before it. Start with `pending`.
"""
