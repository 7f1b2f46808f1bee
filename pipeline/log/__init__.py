"""The log as values: what of it one process tells another. Pure, like all of `pipeline`.

It may import `pipeline.errors` and the standard library. Start with `identity`.
"""
