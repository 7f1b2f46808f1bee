"""The gateway shows itself over HTTP: metrics for Prometheus, life and readiness for probes.

May import: every room of `ingest` but `cli` and `gateway`. Begin with `metric_table`.
"""
