"""Where everything that a gateway keeps lies, and which process owns it.

It may import `tables.journal`. Start with `home`.
"""
