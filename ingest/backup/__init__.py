"""Copies a home beside its gateway, and makes a home of a copy.

It may import nothing of `ingest`. Begin with `backup_run`.
"""
