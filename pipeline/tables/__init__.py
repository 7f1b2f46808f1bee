"""The tables of a home and the journal: bytes become durable, are found again and stay few.

The only room of the domain that writes files. It may import the rest of the domain, but no pyspark.
"""
