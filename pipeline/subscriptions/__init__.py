"""Subscriptions as decisions: which one a link means, who may do what with it, what operators do
to it.

It may import `management` and what stands before it. Start with `registry`; `rights` is the table
of operations and permissions.
"""
