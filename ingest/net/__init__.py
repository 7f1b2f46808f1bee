"""Connections: sockets, frames, Proton's engine, links, and the meaning of a peer's frames.

This room drives Proton's engine, with the C loops of `native`; the rooms above don't see the
engine. It may import `native`, `security` and `runtime`. Start with `engine`, then `connection` and
`inbound`.
"""
