"""What of the messages at hand can go now: expiry, delay and priority, by whole batches."""

from array import array
from collections.abc import Sequence
from itertools import compress
from typing import Literal

import msgspec

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.model.header_attributes import PRIORITY, HeaderAttributes
from distributary.pipeline.sequences.sequence_set import Run


class Sorted(msgspec.Struct, frozen=True):
    """A run by what is to be done with it; runs may be empty.

    `ready` are to be delivered, ascending whatever their priority. `priorities` are all of them and
    of `low` and `delayed` that have not the usual one.
    """

    ready: Run
    low: Run = range(0)  #: of a priority below the usual
    expired: Run = range(0)
    delayed: tuple[tuple[int, Run], ...] = ()  #: (time, run)
    priorities: tuple[tuple[int, Run], ...] = ()


def sort(run: Run, attributes: HeaderAttributes | None, now: int, *, by_priority: bool) -> Sorted:
    """Sort messages of a batch with these header attributes; without `by_priority` all of them are
    of one."""
    if attributes is None:
        return Sorted(run)
    run, expired = split_expired(run, attributes, now)
    delayed: tuple[tuple[int, Run], ...] = ()
    priorities, low = _priorities(run, attributes) if by_priority else ((), range(0))
    if (times := column(attributes.deliver_at, "q", run, attributes)) is not None and max(
        times
    ) > now:
        delayed = _delays(run, times, now)
        run = chosen(run, [time <= now for time in times])
    if low:
        run, low = _without(run, low)
    return Sorted(run, low, expired, delayed, priorities)


def split_expired(run: Run, attributes: HeaderAttributes | None, now: int) -> tuple[Run, Run]:
    """Messages of a batch with these header attributes: those whose time isn't over, and those
    that have expired."""
    if attributes is None:
        return run, range(0)
    expiries = column(attributes.expires_at, "q", run, attributes)
    late = [0 < time <= now for time in expiries or ()]
    if True not in late:
        return run, range(0)
    return chosen(run, [not one for one in late]), chosen(run, late)


def column(
    data: Bytes, code: Literal["B", "q", "Q"], run: Run, attributes: HeaderAttributes
) -> Sequence[int] | None:
    """The values of these messages, or None if all of them have the usual one."""
    if not data or not run:
        return None
    values = memoryview(data).cast("B").cast(code)
    if attributes.sequences is None and isinstance(run, range):
        start = run.start - attributes.first
        return list(values[start : start + run[-1] - run.start + 1 : run.step])
    return [values[attributes.place(one)] for one in run]


def chosen(run: Run, which: Sequence[bool]) -> Run:
    """Those of the run for which it is true."""
    return as_run(array("q", compress(run, which)))


def as_run(sequences: "array[int]") -> Run:
    """The same as a range, if there is none between them."""
    if sequences and sequences[-1] - sequences[0] == len(sequences) - 1:
        return range(sequences[0], sequences[-1] + 1)
    return sequences


def _priorities(run: Run, attributes: HeaderAttributes) -> tuple[tuple[tuple[int, Run], ...], Run]:
    """The messages of each unusual priority, and those of a low one."""
    values = column(attributes.priority, "B", run, attributes)
    if values is None:
        return (), range(0)
    unusual = set(values) - {PRIORITY}
    found = tuple(
        (priority, chosen(run, [value == priority for value in values])) for priority in unusual
    )
    if not unusual or min(unusual) > PRIORITY:
        return found, range(0)
    return found, chosen(run, [value < PRIORITY for value in values])


def _delays(run: Run, times: Sequence[int], now: int) -> tuple[tuple[int, Run], ...]:
    """Those that must wait, by the time until which they must."""
    by_time: dict[int, array[int]] = {}
    for sequence, time in zip(run, times, strict=True):
        if time > now:
            by_time.setdefault(time, array("q")).append(sequence)
    return tuple((time, as_run(sequences)) for time, sequences in by_time.items())


def _without(run: Run, low: Run) -> tuple[Run, Run]:
    """The run without those of a low priority, and these as far as they are in it."""
    is_low = frozenset(low)
    which = [one in is_low for one in run]
    return chosen(run, [not one for one in which]), chosen(run, which)
