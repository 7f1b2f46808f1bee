"""The only room of the domain that knows pyspark: DataFrame in, DataFrame out, no side effects."""
