"""Arrow's and numpy's arrays under names of ours: types, bitmaps and ranges of sequences.

It may import `sequences`. Start with `arrow_types`.
"""
