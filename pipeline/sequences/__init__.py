"""Sets and runs of sequences: the numbers of messages, in little memory and without loops over
them.

It may import `pipeline.errors`. Start with `sequence_set`.
"""
