"""Base of all parts of the process: settings, clock, threads, turns of the loop, log lines, files
that change.

It may import nothing of `ingest`. Start with `settings`, `load_settings` and `turns`.
"""
