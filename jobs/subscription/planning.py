"""Division of a batch's messages into tasks. It needs deltalake, and runs on the driver."""

from array import array
from collections.abc import Iterable, Mapping
from itertools import chain

from distributary.jobs.subscription.choices import Choices
from distributary.jobs.subscription.log_location import LogLocation
from distributary.pipeline.sequences import range_text
from distributary.pipeline.tables.reading.part_reading import Part
from distributary.pipeline.tables.reading.parts import parts


def sequences_of(texts: Iterable[str]) -> "array[int]":
    """Return all sequences of these runs, ascending. Raises InvalidRequest."""
    found = [range_text.sequences_of(text) for text in texts]
    return found[0] if len(found) == 1 else array("q", sorted(chain.from_iterable(found)))


def failed_of(said: Mapping[str, str]) -> dict[int, str]:
    """Return the runs with failed attempts."""
    return {int(failures): text for failures, text in said.items() if int(failures)}


def parts_of(
    choices: Choices,
    location: LogLocation,
    topic: str,
    sequences: "array[int]",
    task_messages: int,
    *,
    exact: bool,
) -> list[Part]:
    """Return the tasks that read these messages, `task_messages` each. `exact`: all of them are the
    topic's.

    Raises StoreError, also when the table there isn't the gateway's.
    """
    return parts(
        location.seen_by(choices),
        dict(choices.storage),
        location.identity,
        topic,
        sequences,
        messages=task_messages,
        exact=exact,
    )
