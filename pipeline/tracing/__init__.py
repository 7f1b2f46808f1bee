"""Spans of messages whose publisher has their trace recorded: what they say, and what is
remembered for them.

May import: `sequences`, `model`, `log`. Start with `traced_deliveries`.
"""
