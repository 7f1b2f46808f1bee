"""A list over several logs, against one that has all of them in a row."""

import random

import pytest

from distributary.pipeline.codec.amqp_types import Map, read
from distributary.pipeline.codec.amqp_writer import Written
from distributary.pipeline.management.log_list import (
    ListPart,
    ListPlace,
    LogList,
    Question,
    list_place,
)
from distributary.pipeline.management.management_messages import Answer


class Logs:
    """Logs with so many entities each; those that are `away` can't be asked."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.rows = {log: [f"{log}{nth}" for nth in range(size)] for log, size in sizes.items()}
        self.names = tuple(sorted(sizes))
        self.away: set[str] = set()
        self.asked: list[Question] = []

    def answer(self, question: Question) -> ListPart | str:
        self.asked.append(question)
        rows = self.rows[question.log]
        if question.log in self.away:
            return "away"
        found = [[one] for one in rows[question.offset : question.offset + question.count]]
        return ListPart(("name",), tuple(found), len(rows))  # type: ignore[arg-type]

    def part(self, count: int, offset: int = 0, place: str | None = None) -> dict[str, object]:
        at = None if place is None else list_place(place, self.names)
        assert not isinstance(at, Answer)
        part = LogList(self.names, count, offset, at)
        for nth, question in enumerate(part.first()):
            (part.totalled if nth else part.listed)(question, self.answer(question))
        while (question := part.following()) is not None:
            part.listed(question, self.answer(question))
        body = part.answer().body
        assert isinstance(body["results"], Written)
        rows, _ = read(body["results"].data, 0)
        assert isinstance(rows, list)
        missing = body["missing"]
        assert isinstance(missing, Map)
        names = [row[0] for row in rows if isinstance(row, list)]
        return {**body, "names": names, "missing": dict(missing.pairs)}

    def all(self, count: int) -> tuple[list[object], set[object]]:
        """All parts together, and what was missing in any."""
        found, missing, part = list[object](), set[object](), self.part(count)
        while True:
            names, gone = part["names"], part["missing"]
            assert isinstance(names, list)
            assert isinstance(gone, dict)
            assert len(names) <= count
            found += names
            missing |= set(gone)
            if part["next"] is None:
                return found, missing
            part = self.part(count, place=str(part["next"]))


def test_parts_are_the_whole() -> None:
    dice = random.Random(7)
    for _ in range(500):
        logs = Logs({log: dice.choice((0, 1, 2, 7)) for log in dice.sample("abcdef", 4)})
        whole = [one for log in logs.names for one in logs.rows[log]]
        count = dice.randint(1, 9)
        assert logs.all(count) == (whole, set())
        for offset in range(len(whole) + 2):
            part = logs.part(count, offset)
            assert part["names"] == whole[offset : offset + count]
            assert part["total"] == len(whole)


def test_what_is_away_is_named_and_all_else_is_there() -> None:
    """Whenever it goes: before the list, or between two parts."""
    dice = random.Random(8)
    for _ in range(500):
        logs = Logs({log: dice.choice((0, 1, 5)) for log in "abcd"})
        logs.away = {log for log in logs.names if dice.random() < 0.4}
        there = [one for log in logs.names if log not in logs.away for one in logs.rows[log]]
        assert logs.all(dice.randint(1, 4)) == (there, logs.away)


def test_a_part_waits_for_one_log_that_is_away() -> None:
    """All are asked at once at the begin; behind a place a part ends at the first one that is
    away."""
    logs = Logs({"a": 3, "b": 3, "c": 3, "d": 1})
    place = str(logs.part(2)["next"])
    logs.away, logs.asked = {"b", "c"}, []
    part = logs.part(9, place=place)
    assert (part["names"], part["missing"]) == (["a2"], {"b": "away"})
    assert [one.log for one in logs.asked] == ["a", "b"]
    assert str(part["next"]).startswith("c:0:")


def test_gateways_of_two_versions_are_listed_in_two_parts() -> None:
    part = LogList(("a", "b"), 9, 0, None)
    first, second = part.first()
    part.listed(first, ListPart(("name",), (["a0"],), 1))  # type: ignore[arg-type]
    part.totalled(second, ListPart((), (), 1))
    question = part.following()
    assert question is not None
    part.listed(question, ListPart(("name", "new"), (["b0", 1],), 1))  # type: ignore[arg-type]
    assert part.following() is None
    assert part.answer().body["next"] == str(ListPlace("b", 0, 2))


def test_a_log_that_gives_fewer_rows_is_asked_for_the_rest() -> None:
    part = LogList(("a", "b"), 4, 0, None)
    first, second = part.first()
    part.listed(first, ListPart(("name",), (["a0"], ["a1"]), 3))  # type: ignore[arg-type]
    part.totalled(second, ListPart((), (), 1))
    assert part.following() is None
    assert part.answer().body["next"] == str(ListPlace("a", 2, 4))


@pytest.mark.parametrize("rows", [0, 3])
def test_a_log_whose_rows_cannot_be_is_named(rows: int) -> None:
    part = LogList(("a", "b"), 2, 0, None)
    first, second = part.first()
    part.listed(first, ListPart(("name",), (["a"],) * rows, 9))  # type: ignore[arg-type]
    part.totalled(second, ListPart((), (), 1))
    question = part.following()
    assert question == Question("b", 0, 2)
    part.listed(question, ListPart(("name",), (["b0"],), 1))  # type: ignore[arg-type]
    missing = part.answer().body["missing"]
    assert isinstance(missing, Map)
    assert [log for log, _ in missing.pairs] == ["a"]


@pytest.mark.parametrize(
    "text", ["", "a", "a:1", "a:1:2:3", "b:1:2", "a:x:2", "a:-1:2", "a: 1:2", "a:1:" + "9" * 19]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    assert isinstance(list_place(text, ("a",)), Answer)
    assert list_place("a:1:2", ("a",)) == ListPlace("a", 1, 2)
