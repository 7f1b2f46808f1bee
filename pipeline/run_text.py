"""Runs of sequences as a short text that people can read, such as `7,10-19,30-50/2`.

A single sequence, a stretch with its first and its last one, or a stretch of which every n-th one
is meant. What one end writes the other one reads, and a person sees in a query's checkpoint which
messages a batch has. Where nothing is regular that would be long: then the text is `~` and, packed,
the first sequence and the distance from each to the next one.
"""

import re
import zlib
from array import array
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable
from itertools import accumulate, pairwise

from pipeline.errors import InvalidRequest
from pipeline.sequences import Run, stretches, strided

#: A longer text is packed, if that is shorter.
PLAIN_MAX = 2_048
#: Bytes that a packed text may have unpacked: some millions of sequences.
UNPACKED_MAX = 16 << 20

_PACKED = "~"
_ITEM = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?:/(\d{1,18}))?)?", re.ASCII)


def text_of(runs: Iterable[Run]) -> str:
    """The runs, each with ascending sequences; empty if there are none."""
    known = list(runs)
    text = ",".join(_item(part) for run in known for part in _ranges(run) if part)
    if len(text) <= PLAIN_MAX:
        return text
    packed = _packed(known)
    return packed if len(packed) < len(text) else text


def runs_of(text: str) -> list[range]:
    """What `text_of` wrote. Raises InvalidRequest for any other text."""
    if text.startswith(_PACKED):
        return list(_ranges(_unpacked(text)))
    return [_range(item) for item in text.split(",")] if text else []


def sequences_of(text: str) -> "array[int]":
    """The sequences, ascending and each once. Raises InvalidRequest."""
    if text.startswith(_PACKED):
        return _unpacked(text)
    found = array("q")
    for run in runs_of(text):
        found.extend(run)
    if any(a >= b for a, b in pairwise(found)):
        found = array("q", sorted(set(found)))
    return found


def text_of_sequences(sequences: Iterable[int]) -> str:
    """Sequences in any order, each once."""
    return text_of([array("q", sorted(sequences))])


def _packed(runs: Iterable[Run]) -> str:
    sequences = sorted({one for run in runs for one in run})
    steps = (b - a for a, b in pairwise([0, *sequences]))
    data = zlib.compress(",".join(map(str, steps)).encode(), 6)
    return _PACKED + b64encode(data).decode()


def _unpacked(text: str) -> "array[int]":
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(b64decode(text[1:], validate=True), UNPACKED_MAX)
        if unpacking.unconsumed_tail or not unpacking.eof:
            raise ValueError("it is too long, or cut")  # noqa: TRY301
        steps = [int(one) for one in data.decode("ascii").split(",")]
        if steps[0] < 0 or any(step <= 0 for step in steps[1:]):
            raise ValueError("it doesn't ascend")  # noqa: TRY301
        return array("q", accumulate(steps))
    except (NotBase64, zlib.error, ValueError, OverflowError) as error:
        raise InvalidRequest(f"packed runs of sequences can't be read: {error}") from None


def _ranges(run: Run) -> Iterable[range]:
    return (run,) if isinstance(run, range) else strided(stretches(run))


def _item(run: range) -> str:
    if len(run) == 1:
        return str(run[0])
    if len(run) == 2 and run.step > 1:
        return f"{run[0]},{run[1]}"
    step = "" if run.step == 1 else f"/{run.step}"
    return f"{run[0]}-{run[-1]}{step}"


def _range(item: str) -> range:
    found = _ITEM.fullmatch(item)
    first = int(found[1]) if found else 0
    last = int(found[2]) if found and found[2] else first
    step = int(found[3]) if found and found[3] else 1
    if found is None or last < first or step == 0:
        shown = item if len(item) <= 40 else f"{item[:40]}..."
        raise InvalidRequest(f"'{shown}' is no run of sequences, such as 7, 10-19 or 30-50/2")
    return range(first, last + 1, step)
