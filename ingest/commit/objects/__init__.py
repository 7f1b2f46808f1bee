"""A gateway's durable steps where its home has no disk.

Start with `put_writer`, which puts groups; `object_home_opening` is the take-over at a start.
"""
