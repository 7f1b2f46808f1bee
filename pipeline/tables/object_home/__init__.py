"""A home without a disk: journal, lease and marks as objects of a store.

It may import `tables.journal` and `tables.delta`. Start with `object_home`; the rules are those of
`pipeline.object_journal`.
"""
