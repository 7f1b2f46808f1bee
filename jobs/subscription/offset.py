"""The offsets of a query on a subscription: each one has the whole content of its batch.

Spark writes an offset into the query's log before the batch runs. So a batch that runs again after
any crash has the same messages, whatever other consumers the subscription has.
"""

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.sequences.range_text import sequences_of, text_of_sequences

#: Format of an offset; others are refused. The first one didn't name its table.
VERSION = 2
FIRST_VERSION = 1


@dataclass(frozen=True, slots=True)
class Acquired:
    """Messages that a holder has: `sequences` ascending, and failed attempts where there are."""

    sequences: "array[int]"
    failed: Mapping[int, int]

    @classmethod
    def of(cls, said: Mapping[str, str]) -> Self:
        """Read a gateway's answer: runs as text, by failed attempts. Raises InvalidRequest."""
        every: list[int] = []
        failed: dict[int, int] = {}
        for failures, text in said.items():
            sequences = sequences_of(text)
            every += sequences
            if int(failures):
                failed.update(dict.fromkeys(sequences, int(failures)))
        return cls(array("q", sorted(every)), failed)

    def before(self, stop: int) -> tuple[Self, str]:
        """Return the messages below `stop`, and the others as runs."""
        at = bisect_left(self.sequences, stop)
        late = text_of_sequences(self.sequences[at:])
        return replace(self, sequences=self.sequences[:at]), late

    def cut(self, messages: int, text_bytes: int) -> tuple[Self, Self]:
        """Return the first messages, `messages` and `text_bytes` as text at most, and the
        others."""
        count = min(messages, len(self.sequences))
        while count > 1:
            size = len(text_of_sequences(self.sequences[:count]))
            if size <= text_bytes:
                break
            count = max(count * text_bytes * 9 // (size * 10), 1)
        first, others = self.sequences[:count], self.sequences[count:]
        return replace(self, sequences=first), replace(self, sequences=others)


@dataclass(frozen=True, slots=True)
class Offset:
    """The end of a batch, with the batch's content; `number` 0: before the first batch.

    `sequences` and the values of `failed` (by failed attempts) are runs as text. `holder` has them,
    of the subscription's incarnation that began in the group `incarnation`; they lie in the table
    at `log`, whose identity is `table` (None in an offset of the first version). Each task of the
    batch has `task_messages` of them, also when the batch runs again with other settings (0 in an
    offset of a release before: as the settings say).
    """

    number: int = 0
    holder: str = ""
    incarnation: int = 0
    topic: str = ""
    log: str = ""
    table: LogIdentity | None = None
    sequences: str = ""
    failed: tuple[tuple[int, str], ...] = ()
    task_messages: int = 0

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        """Read an offset of Spark's log. Raises InvalidRequest for one that isn't ours."""
        version = said.get("version")
        if version not in (FIRST_VERSION, VERSION):
            raise InvalidRequest(
                f"the query's log has an offset of version {version!r}, which this "
                f"source doesn't know ({VERSION} is its own); begin with another checkpoint"
            )
        failed = sorted((int(n), str(text)) for n, text in said["failed"].items())
        return cls(
            int(said["batch"]),
            str(said["holder"]),
            int(said["incarnation"]),
            str(said["topic"]),
            str(said["log"]),
            LogIdentity.of(said["table"]) if said.get("table") is not None else None,
            str(said["sequences"]),
            tuple(failed),
            int(said.get("task_messages", 0)),
        )

    def json(self) -> dict[str, Any]:
        """Return the form for Spark's log; equal offsets have equal forms."""
        return {
            "version": VERSION,
            "batch": self.number,
            "holder": self.holder,
            "incarnation": self.incarnation,
            "topic": self.topic,
            "log": self.log,
            "table": None if self.table is None else self.table.body(),
            "sequences": self.sequences,
            "failed": {str(failures): text for failures, text in self.failed},
            "task_messages": self.task_messages,
        }

    def next(
        self,
        holder: str,
        incarnation: int,
        topic: str,
        log: str,
        table: LogIdentity,
        what: Acquired,
        task_messages: int,
    ) -> Self:
        """Return the end of the next batch, which has these messages."""
        failed: dict[int, list[int]] = {}
        for sequence in what.sequences:
            if failures := what.failed.get(sequence):
                failed.setdefault(failures, []).append(sequence)
        texts = ((failures, text_of_sequences(some)) for failures, some in sorted(failed.items()))
        sequences = text_of_sequences(what.sequences)
        return replace(
            self,
            number=self.number + 1,
            holder=holder,
            incarnation=incarnation,
            topic=topic,
            log=log,
            table=table,
            sequences=sequences,
            failed=tuple(texts),
            task_messages=task_messages,
        )
