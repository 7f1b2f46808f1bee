"""Schemas of a running gateway: each topic's schema, and checks of messages before they are taken.

The libraries are in a process of their own, which runs while a schema is set or messages are
checked: the gateway imports none of them. Start with `schema_directory`, then `validator`.
"""
