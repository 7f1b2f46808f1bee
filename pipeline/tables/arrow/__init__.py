"""Arrow's and numpy's arrays under names of ours: types, bitmaps and ranges of
sequences; and the fold of settlements.

It may import `sequences`, `model` and `log`. Start with `arrow_types`.
"""
