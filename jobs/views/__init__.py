"""What people and notebooks run over a home's tables: views, the audit, backfill, the preview of a
rewind.

It may import every other room of `jobs`. Start with `notebook_views`.
"""
