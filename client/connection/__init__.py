"""One connection: where to, who logs in, Proton's engine over a socket, what goes wrong with it.

May import: `pipeline`, `conf`, `ingest/native`, the client's side of `ingest/security`. Begin with
`wire`.
"""
