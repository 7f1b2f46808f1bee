"""A list over the logs of a lake: the questions to each log, and the parts made of their answers.

The logs are listed one after the other, by their names, each in its own order. A part ends when it
is full, or before a log that can't be asked, unless that is the part's first; the next part begins
at a `ListPlace`.

Rule 1: no log is left out silently: it is asked, or it is named with the reason.
Rule 2: a part costs one wait for all logs without an owner together.
"""

import re
from typing import Final

import msgspec

from distributary.pipeline.codec.amqp_codes import LISTS
from distributary.pipeline.codec.amqp_types import Map, Value
from distributary.pipeline.codec.amqp_writer import Writable, Written, compound, write
from distributary.pipeline.management.management_messages import (
    BAD_REQUEST,
    OK,
    Answer,
    Request,
    Verb,
)

#: Text of a `ListPlace`; its numbers fit in 63 bits.
_PLACE: Final = re.compile(r"([a-z0-9_-]+):([0-9]{1,18}):([0-9]{1,18})")


class ListPlace(msgspec.Struct, frozen=True):
    """Begin of a part: behind `offset` entities of a log; `total` is that of the whole list."""

    log: str
    offset: int
    total: int

    def __str__(self) -> str:
        return f"{self.log}:{self.offset}:{self.total}"


class ListPart(msgspec.Struct, frozen=True):
    """One log's answer: values of `names` for each entity, and the log's number of entities."""

    names: tuple[str, ...]
    rows: tuple[Writable, ...]
    total: int


class Question(msgspec.Struct, frozen=True):
    """A question to one log."""

    log: str
    offset: int
    count: int

    def request(self, asked: Request) -> Request:
        """Return the question as a request."""
        wanted = {key: value for key, value in asked.attributes.items() if key != "from"}
        said = {**wanted, "offset": self.offset, "count": self.count}
        return Request(Verb.QUERY, asked.entity, asked.name, said, self.log)


def list_place(text: str, logs: tuple[str, ...]) -> ListPlace | Answer:
    """Parse the place in a request; return an error's answer for a text that is none."""
    found = _PLACE.fullmatch(text)
    if found is None or found[1] not in logs:
        said = "'from' is no place in this list: say the 'next' of the part before"
        return Answer(BAD_REQUEST, said)
    return ListPlace(found[1], int(found[2]), int(found[3]))


class LogList:
    """One part of a list while it is gathered. The caller asks all questions of `first` at once and
    passes each answer in; then it asks `following` and passes the answer in, until that is None."""

    def __init__(
        self, logs: tuple[str, ...], count: int, offset: int, place: ListPlace | None
    ) -> None:
        """`logs`: ascending; without a place `offset` counts from the first log's first entity."""
        self._logs, self._count, self._place = logs, count, place
        self._at = 0 if place is None else logs.index(place.log)
        self._offset = self._asked_offset = offset if place is None else place.offset
        self._totals: dict[str, int] = {}
        self._missing: dict[str, str] = {}
        self._parts: list[ListPart] = []
        self._left = count
        self._next: tuple[str, int] | None = None
        self._over = False

    def first(self) -> list[Question]:
        """Return the first questions: for a part of the first log, and all others' totals."""
        asked = [Question(self._logs[self._at], self._offset, self._count)]
        if self._place is None:
            asked += [Question(log, self._asked_offset, 0) for log in self._logs[1:]]
        return asked

    def totalled(self, question: Question, part: ListPart | str) -> None:
        """Take a log's total, or the reason why it is unknown."""
        if isinstance(part, str):
            self._missing[question.log] = part
        else:
            self._totals[question.log] = part.total

    def following(self) -> Question | None:
        """Return the next question; None when the part is complete."""
        while not self._over and self._at < len(self._logs):
            log = self._logs[self._at]
            total = self._totals.get(log)
            if log in self._missing:
                self._at += 1
            elif total is not None and total <= self._offset:
                self._offset -= total
                self._at += 1
            elif not self._left:
                self._end()
            else:
                return Question(log, self._offset, self._left)
        return None

    def listed(self, question: Question, part: ListPart | str) -> None:
        """Take the answer of the log that was asked, or the reason why there is none."""
        if isinstance(part, str):
            self._missing[question.log] = part
            self._at += 1
            if self._place is not None or self._parts:
                self._end()
            return
        took, there = len(part.rows), max(0, part.total - self._offset)
        if took > min(question.count, there) or (there and question.count and not took):
            text = f"it lists {took} of {there} entities where {question.count} were asked for"
            self.listed(question, text)
            return
        named = [one.names for one in self._parts if one.names]
        if named and part.names and part.names != named[0]:  # gateways of two versions
            self._end()
            return
        self._totals[question.log] = part.total
        self._parts.append(part)
        self._left -= took
        if self._offset + took < part.total:
            self._offset += took
            self._end()
        else:
            self._offset = max(0, self._offset - part.total)
            self._at += 1

    def _end(self) -> None:
        """End this part; the next one begins at the present place."""
        self._over = True
        if self._count and self._at < len(self._logs):
            self._next = self._logs[self._at], self._offset

    def answer(self) -> Answer:
        """Return the part as an answer."""
        total = sum(self._totals.values()) if self._place is None else self._place.total
        names = next((one.names for one in self._parts if one.names), ())
        rows = [row for one in self._parts for row in one.rows]
        text = f"{len(rows)} of {total}"
        if self._missing:
            text += f"; without what is in {', '.join(sorted(self._missing))}"
        place = None if self._next is None else str(ListPlace(*self._next, total))
        body: dict[str, Writable] = {
            "attributeNames": list[Value](names),
            "results": Written(compound(LISTS, [write(row) for row in rows])),
            "total": total,
            "next": place,
            "missing": Map(tuple(sorted(self._missing.items()))),
        }
        return Answer(OK, text, body)
