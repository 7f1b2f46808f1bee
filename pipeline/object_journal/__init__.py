"""The rules of a journal whose entries are objects of a store: which entries count, in which order
groups are accepted, and how a gateway takes such a home over.

Commands and answers come in, effects go out; nothing here calls a store. It may import the core.
Start with `take_over`.
"""
