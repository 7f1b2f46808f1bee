"""The rules of a journal whose entries are objects of a store: what stands, in which order groups
are accepted, and how a gateway takes such a home over.

Commands and answers come in, effects go out; nothing here asks a store. It may import the core.
Start with `take_over`.
"""
