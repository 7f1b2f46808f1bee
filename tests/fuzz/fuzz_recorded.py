"""Bytes of real clients, recorded once through a proxy, with damage drawn by a seed."""

import random
import struct
from functools import cache
from pathlib import Path

from fuzz_transcript import Say, read
from fuzz_values import damaged

RECORDED = Path(__file__).with_name("recorded")


@cache
def recordings() -> tuple[tuple[bytes, ...], ...]:
    """Each recording's frames and headers, in order."""
    found = []
    for path in sorted(RECORDED.glob("*.txt")):
        acts = read(path)
        numbers = sorted({act.connection for act in acts})
        for number in numbers:
            said = b"".join(
                act.data for act in acts if isinstance(act, Say) and act.connection == number
            )
            found.append(tuple(frames(said)))
    return tuple(found)


def frames(data: bytes) -> list[bytes]:
    """Bytes of one direction, cut into headers and frames."""
    found, at = [], 0
    while at < len(data):
        size = 8 if data[at : at + 4] == b"AMQP" else struct.unpack_from(">I", data, at)[0]
        found.append(data[at : at + size])
        at += size
    return found


def recorded(dice: random.Random) -> list[bytes]:
    """A recording with a few things wrong: frames damaged, doubled, left out, in another order."""
    said = list(dice.choice(recordings()))
    for _ in range(dice.choice([0, 1, 1, 2, 3, 6])):
        at = dice.randrange(len(said))
        if not said[at].startswith(b"AMQP"):
            said[at] = damaged(said[at], dice)
    if dice.random() < 0.3:
        said.insert(dice.randrange(len(said)), dice.choice(said))
    if dice.random() < 0.2:
        said.pop(dice.randrange(len(said)))
    if dice.random() < 0.2:
        first, last = sorted(dice.sample(range(len(said) + 1), 2))
        said[first:last] = dice.sample(said[first:last], last - first)
    return said
