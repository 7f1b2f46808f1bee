"""Every default with its unit and reason: the gateway's (`distributary.toml`) and Spark's."""
