"""Decisions about subscriptions: the one that a link means, users' rights, operators' requests.

It may import `management` and the rooms before it. Start with `registry`; `rights` is the table of
operations and permissions.
"""
