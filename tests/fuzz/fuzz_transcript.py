"""Acts of several connections, in order, as a file that one can read and play again.

A line is a connection's number and what it does: `0 > 414d...` bytes that it sends, `0 ?` it waits
for something to come, `0 !` it drops its socket. A line that begins with # is a remark.
"""

from dataclasses import dataclass
from pathlib import Path

from gateway_fields import KINDS


@dataclass(frozen=True, slots=True)
class Say:
    """A connection sends bytes; a frame, a header, or a part of one."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Hear:
    """A connection waits until something has come, a moment at most."""

    connection: int


@dataclass(frozen=True, slots=True)
class Drop:
    """A connection's socket ends without a word."""

    connection: int


Act = Say | Hear | Drop


def text(acts: list[Act], remark: str = "") -> str:
    """The acts as a file's text."""
    lines = [f"# {line}" for line in remark.splitlines()]
    for act in acts:
        match act:
            case Say(connection, data):
                lines += [f"# {kind_of(data)}", f"{connection} > {data.hex()}"]
            case Hear(connection):
                lines.append(f"{connection} ?")
            case Drop(connection):
                lines.append(f"{connection} !")
    return "\n".join(lines) + "\n"


def read(path: Path) -> list[Act]:
    """The acts of a file. Raises ValueError, with the line, if it isn't one."""
    acts: list[Act] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match line.split():
            case []:
                continue
            case [word, *_] if word.startswith("#"):
                continue
            case [connection, ">", data]:
                acts.append(Say(int(connection), bytes.fromhex(data)))
            case [connection, ">"]:
                acts.append(Say(int(connection), b""))
            case [connection, "?"]:
                acts.append(Hear(int(connection)))
            case [connection, "!"]:
                acts.append(Drop(int(connection)))
            case _:
                raise ValueError(f"{path}:{number}: '{line[:40]}' is none of: N > hex, N ?, N !")
    return acts


def kind_of(data: bytes) -> str:
    """The kind of a frame, for readers of the file."""
    if data.startswith(b"AMQP"):
        return "header"
    if len(data) > 11 and data[8:10] == b"\x00\x53":
        return f"{KINDS.get(data[10], hex(data[10]))} on channel {int.from_bytes(data[6:8], 'big')}"
    return "bytes"
