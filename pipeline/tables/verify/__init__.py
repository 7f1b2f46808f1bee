"""Whether a home is sound: what `distributary verify` and `info` read, count and say.

It judges with code of its own on purpose: what it checks is not what wrote it. Start with
`verify_home`.
"""
