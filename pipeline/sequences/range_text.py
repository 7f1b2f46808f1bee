"""Runs of sequences as a short readable text, such as `7,10-19,30-50/2`.

Its parts are single sequences, stretches with their first and last sequence, and stretches of every
n-th sequence. Requests and offsets have such texts, so a reader of a query's checkpoint sees which
messages a batch has. For irregular runs that would be long: then the text is `~` and, packed, the
first sequence and the distance from each to the next one.
"""

import re
import zlib
from array import array
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.sequences.gathering import stretches, strided
from distributary.pipeline.sequences.sequence_set import Run

#: A longer text is packed, if that is shorter.
PLAIN_MAX = 2_048
#: Sequences that a text may have, unless its reader allows fewer.
SEQUENCES_MAX = 16 << 20
#: Sequences of one part of a text: a few milliseconds of work.
PART_SEQUENCES = 16_384

_PACKED = "~"
_ITEM = re.compile(r"(\d{1,18})(?:-(\d{1,18})(?:/(\d{1,18}))?)?", re.ASCII)
#: A range of this many sequences stays a range; shorter ones are gathered.
_LONG = 16
#: Bytes that are unpacked at a time, at most a part's numbers and commas; and those of one number.
_CHUNK_BYTES = 2 * PART_SEQUENCES
_NUMBER_BYTES_MAX = 20


def text_of(runs: Iterable[Run]) -> str:
    """Return the text of runs, each with ascending sequences; empty if there are none."""
    known = list(runs)
    text = ",".join(_item(part) for run in known for part in _ranges(run) if part)
    if len(text) <= PLAIN_MAX:
        return text
    packed = _packed(known)
    return packed if len(packed) < len(text) else text


def parts_of(text: str, most: int = SEQUENCES_MAX) -> Iterator[Run]:
    """Yield the sequences of a text of `text_of` in parts: long ranges, and arrays of about
    PART_SEQUENCES. A caller may let other tasks run between two parts.

    Raises InvalidRequest for any other text, and where there are more than `most` sequences,
    before these are made.
    """
    left = most
    for part in _unpacked(text) if text.startswith(_PACKED) else _plain(text):
        left -= len(part)
        if left < 0:
            raise InvalidRequest(f"more than {most} sequences in one text")
        yield part


def sequences_of(text: str, most: int = SEQUENCES_MAX) -> "array[int]":
    """Return the sequences, ascending and each once. Raises InvalidRequest."""
    found = array("q")
    for part in parts_of(text, most):
        found.extend(part)
    if any(a >= b for a, b in pairwise(found)):
        found = array("q", sorted(set(found)))
    return found


def text_of_sequences(sequences: Iterable[int]) -> str:
    """Return the text of sequences in any order, each given once."""
    return text_of([array("q", sorted(sequences))])


def _packed(runs: Iterable[Run]) -> str:
    sequences = sorted({one for run in runs for one in run})
    steps = (b - a for a, b in pairwise([0, *sequences]))
    data = zlib.compress(",".join(map(str, steps)).encode(), 6)
    return _PACKED + b64encode(data).decode()


def _plain(text: str) -> Iterator[Run]:
    short: list[int] = []
    for item in text.split(",") if text else ():
        run = _range(item)
        if len(run) >= _LONG:
            yield run
            continue
        short.extend(run)
        if len(short) >= PART_SEQUENCES:
            yield array("q", sorted(set(short)))
            short.clear()
    if short:
        yield array("q", sorted(set(short)))


def _unpacked(text: str) -> "Iterator[array[int]]":
    """Yield the sequences of a text of `_packed` while it is unpacked, a part at a time."""
    try:
        unpacking, last, rest = zlib.decompressobj(), -1, b""
        data = b64decode(text[1:], validate=True)
        while not unpacking.eof:
            chunk = unpacking.decompress(data, _CHUNK_BYTES)
            data = unpacking.unconsumed_tail
            if not chunk and not unpacking.eof:
                raise ValueError("it is cut")  # noqa: TRY301
            words = (rest + chunk).split(b",")
            rest = b"" if unpacking.eof else words.pop()
            if max(map(len, (rest, *words))) > _NUMBER_BYTES_MAX:
                raise ValueError("a number in it is too long")  # noqa: TRY301
            steps = list(map(int, words))
            if last < 0 and steps:  # the first one is no step, but where they begin
                steps[0] += 1
            if any(step <= 0 for step in steps):
                raise ValueError("it doesn't ascend")  # noqa: TRY301
            found = array("q", accumulate(steps, initial=last))[1:]
            if found:
                last = found[-1]
                yield found
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
