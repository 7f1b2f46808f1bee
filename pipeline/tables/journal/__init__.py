"""The journal: it makes `accepted` true before the table has the message.

It may import the core. Start with `journal`; `frame` is the format.
"""
