"""The tables of Spark as one contract: columns, names, incarnations, deliveries.

Start with `spark_schema`.
"""
