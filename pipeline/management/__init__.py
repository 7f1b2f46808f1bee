"""Requests to `$management` and their answers, as values.

It may import `model` and `codec`. Start with `management_messages`.
"""
