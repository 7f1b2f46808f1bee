"""Every default with its unit and reason: `distributary.toml` for the gateway, `spark.conf` for the jobs."""
