"""Checks of a home: `distributary verify` and `info` read, count and report its files.

It folds and checks with code of its own, on purpose: it judges the files' writers. Start with
`verify_home`.
"""
