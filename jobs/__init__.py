"""Entry points for `spark-submit`: thin wiring, `build(spark, settings)` and `main(argv)`."""
