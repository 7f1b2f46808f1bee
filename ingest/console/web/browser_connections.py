"""Connections of browsers that ask for nothing are closed.

uvicorn bounds how many connections there are and how long one may rest between two answers. One
that never sends a whole request, or never reads its answer, would stay for ever, and some hundred
of them keep others out.
"""

import asyncio
from typing import NoReturn

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle


async def close_silent(server: uvicorn.Server, seconds: float) -> NoReturn:
    """Close, for as long as the server runs, each connection whose next request isn't whole, or
    whose answer isn't read, after so many seconds; twice as many at most."""
    before: dict[H11Protocol, RequestResponseCycle | None] = {}
    while True:
        await asyncio.sleep(seconds)
        every = server.server_state.connections
        now = {one: one.cycle for one in every if isinstance(one, H11Protocol)}
        for connection, cycle in now.items():
            if connection in before and before[connection] is cycle and _waits(connection):
                connection.transport.close()
        before = now


def _waits(connection: H11Protocol) -> bool:
    """Whether it is the browser's turn."""
    cycle: RequestResponseCycle | None = connection.cycle
    asks = cycle is None or cycle.response_complete or cycle.more_body
    return asks or connection.flow.write_paused
