"""What readings mean: what is wrong, what a list shows, what an operation will do. Pure: values in,
values out; no clock, no socket, no file.

May import: `pipeline`, the values of `cli/watching/metric_readings`.
"""
