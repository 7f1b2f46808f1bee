"""The console: a gateway in the browser, served by a process of its own.

It asks a gateway by `$management` as the user who has logged in, reads its metrics while somebody
looks, and reads the tables of its home. It may import whatever the other rooms have; the gateway
imports nothing of it. Begin with `console_server`, then `web/visit.py` and `pages/site.py`.
"""
