"""Subscriptions as decisions: who may do what with them, and whose their names are.

Pure: no clock, no file, no socket. It may import what lies beside it in `pipeline`; tables and
transforms may not be imported. Start with `rights`, the table of operations and permissions.
"""
