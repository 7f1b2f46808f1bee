"""Decisions about subscriptions: which one a link means, which user may do what with it, what
operators do to it.

It may import `management` and the rooms before it. Start with `registry`; `rights` is the table of
operations and permissions.
"""
