"""Entry points for `spark-submit`: thin wiring, `build(spark, settings)` and `main(argv)`.

It may import `pipeline` and `conf`, nothing of the service. `session.job_names` lists the jobs.
"""
