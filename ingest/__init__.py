"""The running service, and the only room that knows Proton, sockets and asyncio."""
