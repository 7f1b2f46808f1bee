"""Sorting of offered messages by expiry, delay and priority, in whole batches."""

from array import array
from collections.abc import Sequence
from itertools import compress
from typing import Literal

import msgspec

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.model.header_attributes import PRIORITY, HeaderAttributes
from distributary.pipeline.sequences.sequence_set import Run


class Sorted(msgspec.Struct, frozen=True):
    """A run, split by the next step for its messages; each part may be empty.

    `ready` are to be delivered now, in ascending order for all priorities. `priorities` has the
    messages of `ready`, `low` and `delayed` whose priority isn't the usual one.
    """

    ready: Run
    low: Run = range(0)  #: of a priority below the usual
    expired: Run = range(0)
    delayed: tuple[tuple[int, Run], ...] = ()  #: (time, run)
    priorities: tuple[tuple[int, Run], ...] = ()


def sort(run: Run, attributes: HeaderAttributes | None, now: int, *, by_priority: bool) -> Sorted:
    """Sort messages of a batch with these header attributes; without `by_priority` all of them have
    one priority."""
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
    """Split messages of a batch with these header attributes: those that haven't expired, and those
    that have."""
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
    """Return the values of these messages, or None if all of them have the usual one."""
    if not data or not run:
        return None
    values = memoryview(data).cast("B").cast(code)
    if attributes.sequences is None and isinstance(run, range):
        start = run.start - attributes.first
        return list(values[start : start + run[-1] - run.start + 1 : run.step])
    return [values[attributes.place(one)] for one in run]


def chosen(run: Run, which: Sequence[bool]) -> Run:
    """Return the messages of the run for which `which` is true."""
    return as_run(array("q", compress(run, which)))


def as_run(sequences: "array[int]") -> Run:
    """Return the sequences as a range if they are consecutive, else unchanged."""
    if sequences and sequences[-1] - sequences[0] == len(sequences) - 1:
        return range(sequences[0], sequences[-1] + 1)
    return sequences


def _priorities(run: Run, attributes: HeaderAttributes) -> tuple[tuple[tuple[int, Run], ...], Run]:
    """Return the messages of each unusual priority, and those below the usual one."""
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
    """Return the messages whose time is after `now`, by time."""
    by_time: dict[int, array[int]] = {}
    for sequence, time in zip(run, times, strict=True):
        if time > now:
            by_time.setdefault(time, array("q")).append(sequence)
    return tuple((time, as_run(sequences)) for time, sequences in by_time.items())


def _without(run: Run, low: Run) -> tuple[Run, Run]:
    """Split the run: the messages that aren't in `low`, and those that are."""
    is_low = frozenset(low)
    which = [one in is_low for one in run]
    return chosen(run, [not one for one in which]), chosen(run, which)
