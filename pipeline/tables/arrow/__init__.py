"""Our names for Arrow's and numpy's arrays: types, the columns of `topic_log`, bitmaps and ranges
of sequences; and the fold of settlements.

It may import `sequences`, `model`, `log` and the columns' names. Start with `arrow_types`.
"""
