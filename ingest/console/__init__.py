"""The console: a gateway in the browser, served by a process of its own.

It asks a gateway by `$management` as the user who has logged in, reads its metrics while a
page is open, and reads the tables of its home. It may import all other rooms; the gateway imports
nothing of it. Begin with `console_server`, then `web/visit.py` and `pages/site.py`.
"""
