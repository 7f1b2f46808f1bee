"""Copies a home beside its gateway, and makes a home of a copy.

May import: `runtime`. Begin with `backup_run`.
"""
