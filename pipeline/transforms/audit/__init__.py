"""The guarantees as SQL over a home's tables: each check is one file, and its rows are what breaks
it.

`audit_checks` reads the files, `audit_views` makes what they ask. On purpose it uses none of
the code that it judges: cursors are folded anew, in SQL.
"""
