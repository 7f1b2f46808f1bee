"""Selectors as Spark columns: the same answer as the gateway's.

It may import `pipeline.selector`. Start with `selector_column`.
"""
