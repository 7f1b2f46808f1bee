"""One connection: the server's URL, the login, Proton's engine over a socket, and its errors.

May import: `pipeline`, `conf`, `ingest/native`, the client's side of `ingest/security`. Begin with
`wire`.
"""
