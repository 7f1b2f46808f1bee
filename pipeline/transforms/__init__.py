"""Spark's side of the domain: DataFrame in, DataFrame out.

It may import pyspark, pandas, pyarrow, numpy and the pure rooms of the domain, and nothing of
`tables`. `view_registry` alone has an effect: it registers views in a session.
"""
