"""Schemas of topics as documents that other tools read.

It may import `schemas` and `model`. Start with `async_api`.
"""
