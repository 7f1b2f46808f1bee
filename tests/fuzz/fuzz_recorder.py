"""Records what real clients send: a proxy before a gateway. `python fuzz_recorder.py LISTEN_PORT
GATEWAY_PORT FILE` until it is interrupted; each connection is one number in the transcript.
"""

import asyncio
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from fuzz_recorded import frames
from fuzz_transcript import Act, Say, text


async def _pass(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: bytearray
) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            heard += data
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.close()


async def record(listen: int, gateway: int, path: Path) -> None:
    """Pass everything on, and write what clients said into the file whenever one has gone."""
    numbers, heard = count(), dict[int, bytearray]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(numbers)
        heard[number] = bytearray()
        onward = await asyncio.open_connection("127.0.0.1", gateway)
        await asyncio.gather(
            _pass(reader, onward[1], heard[number]), _pass(onward[0], writer, bytearray())
        )
        acts: list[Act] = [Say(n, one) for n, said in heard.items() for one in frames(bytes(said))]
        path.write_text(text(acts))  # noqa: ASYNC240 (a tool; no other task waits)

    server = await asyncio.start_server(connected, "127.0.0.1", listen)
    await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(record(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])))
