"""Ownership of a home: how a gateway waits for one, shows that it lives, and gives it back.

It imports `runtime` and `commit`. Start with `any_home`; `standing_by` and `leaving` are the two
sides of a planned hand-over.
"""
