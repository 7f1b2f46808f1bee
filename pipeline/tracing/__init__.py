"""Spans of messages whose trace is sampled: their fields, and the deliveries that are followed
until they are settled.

May import: `codec`, `sequences`, `model`, `log`. Start with `traced_deliveries`.
"""
