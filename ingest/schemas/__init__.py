"""Schemas of a running gateway: which topic has which, and messages that are looked at before they
are taken.

The libraries are in a process of its own, which there is while a schema is set or messages are
checked: the gateway imports none of them. Start with `schema_directory`, then `validator`.
"""
