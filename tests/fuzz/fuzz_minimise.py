"""Makes a failing conversation small: acts are left out while it still fails (delta debugging),
then bytes inside of those that are left.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from fuzz_transcript import Act, Say

T = TypeVar("T")


def minimised(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """A part of the items that fails and of which no single one can be left out; ddmin (Zeller and
    Hildebrandt 2002). All of them must fail."""
    rest, parts = list(items), 2
    while len(rest) > 1:
        size = -(-len(rest) // parts)
        for at in range(0, len(rest), size):
            without = rest[:at] + rest[at + size :]
            if without and fails(without):
                rest, parts = without, max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(rest), 2 * parts)
    return rest


def smaller(acts: list[Act], fails: Callable[[list[Act]], bool]) -> list[Act]:
    """The acts that matter, with as few bytes as are found."""
    rest = minimised(acts, fails)
    for at, act in enumerate(rest):
        if isinstance(act, Say) and len(act.data) > 200:  # what is short is read as it is
            rest[at] = Say(act.connection, _shorter(act, rest, at, fails))
    return rest


def _shorter(act: Say, acts: list[Act], at: int, fails: Callable[[list[Act]], bool]) -> bytes:
    """Fewer bytes of one act: blocks of it are left out, and its frame says its new size."""
    data, block = act.data, len(act.data) // 2
    while block >= 8:
        start = 8
        while start < len(data):
            cut = data[:start] + data[start + block :]
            cut = len(cut).to_bytes(4, "big") + cut[4:] if not cut.startswith(b"AMQP") else cut
            if fails([*acts[:at], Say(act.connection, cut), *acts[at + 1 :]]):
                data = cut
            else:
                start += block
        block //= 2
    return data
