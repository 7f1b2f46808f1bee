"""Clients of a running gateway: the other end of `$management`.

It may import `pipeline` and Proton's client. Start with `management_client`.
"""
