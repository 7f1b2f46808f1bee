"""The base of every page of the console: sessions, checks of requests, templates.

May import: Starlette, Jinja2, `asking`, settings. Begin with `visit`.
"""
