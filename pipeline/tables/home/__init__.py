"""The places of a gateway's files, and the process that owns them.

It may import `tables.journal`. Start with `home`.
"""
