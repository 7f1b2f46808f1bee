"""What every page of the console stands on: who asks, what may come in, how pages are written.

May import: Starlette, Jinja2, `asking`, settings. Begin with `visit`.
"""
