"""Checks of a home: `distributary verify` and `info` read, count and report its files.

This room shares no code with the writers of those files, so that it can judge them. Start with
`verify_home`.
"""
