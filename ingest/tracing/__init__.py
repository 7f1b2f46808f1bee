"""Traced messages as spans, and their way to a collector.

May import: `runtime`, `native`. Nothing here is imported while `traces.endpoint` is empty. Start
with `message_tracing`; `span_process` is the process that sends.
"""
