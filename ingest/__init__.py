"""The service: sockets, Proton, asyncio, threads, and the command line.

It may import `pipeline` without its transforms, `conf`, and the client of `jobs`. Start with
`gateway`.
"""
