"""Meaning of readings: problems, contents of lists, effects of operations. Pure: values in,
values out; no clock, no socket, no file.

May import: `pipeline`, the values of `cli/watching/metric_readings`.
"""
