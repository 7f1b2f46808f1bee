"""One connection: sockets, frames, Proton's engine, links; what a peer's frames mean.

Drives Proton's engine, with the C loops of `native`; the rooms above don't know it. It may import
`native`, `security` and `runtime`. Start with `engine`, then `connection` and `inbound`.
"""
