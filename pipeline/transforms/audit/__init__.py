"""The guarantees as SQL over a home's tables: each check is one file, and its rows are violations.

`audit_checks` reads the files, `audit_views` makes the views that they read. On purpose the audit
uses none of the code that it judges: cursors are folded anew, in SQL.
"""
