"""Programs for people and notebooks over a home's tables: views, audit, backfill, rewind preview.

It may import every other room of `jobs`. Start with `notebook_views`.
"""
