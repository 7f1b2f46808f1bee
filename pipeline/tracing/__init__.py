"""Spans of messages whose trace is sampled: what they say, and what is
followed until it is settled.

May import: `codec`, `sequences`, `model`, `log`. Start with `traced_deliveries`.
"""
