"""Answers of another gateway's node: whatever comes is read, or said to be none."""

import random
from collections.abc import Iterator
from uuid import UUID

import pytest

from distributary.pipeline.codec.amqp_codes import Kind
from distributary.pipeline.codec.amqp_types import Map, Value
from distributary.pipeline.codec.amqp_writer import Written, section, write
from distributary.pipeline.codec.sections import Identifier, Typed, decode
from distributary.pipeline.management.log_list import ListPart
from distributary.pipeline.management.management_messages import Answer, encoded
from distributary.pipeline.management.node_answers import NodeAnswer, answer_of, asked_by

ROWS: list[Value] = [["a", 1, Map((("k", None),))], ["b", -2, "x" * 300]]
LIST = {"attributeNames": ["name", "n", "more"], "results": ROWS, "total": 7}
GOOD = encoded(Answer(200, "2 of 7", LIST), "there", 5, "orders")


def test_an_answer_is_handed_on_as_it_came() -> None:
    found = answer_of(GOOD)
    assert isinstance(found, NodeAnswer)
    assert (asked_by(GOOD), found.status, found.description) == (5, 200, "2 of 7")
    mine: list[Identifier | None] = ["mine", 2**64 - 1, b"x", UUID(int=1), None]
    for correlation in mine:
        again, before = decode(found.readdressed("here", correlation)), decode(GOOD)
        assert (again.properties.to, again.properties.correlation_id) == ("here", correlation)
        assert again.application_properties == before.application_properties
        assert again.body == before.body
    rows = tuple(Written(write(row)) for row in ROWS)
    assert found.list_part() == ListPart(("name", "n", "more"), rows, 7)


def test_a_value_of_another_type_is_none() -> None:
    found = answer_of(encoded(Answer(200, "", {"topic": "a.b", "floor": 7}), "", 1))
    assert isinstance(found, NodeAnswer)
    assert (found.text("topic"), found.text("floor"), found.text("name")) == ("a.b", None, None)
    assert (found.number("floor"), found.number("topic"), found.number("name")) == (7, None, None)


def said(**properties: object) -> bytes:
    pairs = tuple(properties.items())
    return section(Kind.APPLICATION_PROPERTIES, write(Map(pairs)))  # type: ignore[arg-type]


BODY = section(Kind.VALUE, write(Map()))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no status"),
        (BODY, "no status"),
        (said(statusCode="200") + BODY, "no status"),
        (said(statusCode=True) + BODY, "no status"),
        (said(statusCode=-1) + BODY, "no status"),
        (said(statusCode=2**40) + BODY, "no status"),
        (said(status=200) + BODY, "no status"),
        (said(statusCode=200), "no map"),
        (said(statusCode=200) + section(Kind.VALUE, write([])), "no map"),
        (said(statusCode=200) + section(Kind.DATA, write(b"x")), "no map"),
        (said(statusCode=200) + BODY[:-1], "can't be read"),
        (BODY + said(statusCode=200), "can't be read"),
        (section(Kind.APPLICATION_PROPERTIES, write([])) + BODY, "can't be read"),
        (b"\xff" * 100, "can't be read"),
    ],
)
def test_what_is_no_answer_is_said_to_be_none(data: bytes, why: str) -> None:
    found = answer_of(data)
    assert isinstance(found, str)
    assert why in found


def test_a_sentence_of_another_type_is_none() -> None:
    found = answer_of(said(statusCode=500, statusDescription=7) + BODY)
    assert isinstance(found, NodeAnswer)
    assert (found.status, found.description) == (500, "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"results": None},
        {"results": [None]},
        {"results": [["a"]]},
        {"results": {"a": 1}},
        {"attributeNames": None},
        {"attributeNames": ["name", 1, "more"]},
        {"total": None},
        {"total": True},
        {"total": -1},
        {"total": "7"},
    ],
)
def test_a_list_of_other_types_is_none(wrong: dict[str, Value]) -> None:
    body = {key: value for key, value in {**LIST, **wrong}.items() if value is not None}
    body = {k: Map(tuple(v.items())) if isinstance(v, dict) else v for k, v in body.items()}
    found = answer_of(encoded(Answer(200, "", body), "", 1))  # type: ignore[arg-type]
    assert isinstance(found, NodeAnswer)
    assert isinstance(found.list_part(), str)


@pytest.mark.parametrize("number", ["5", b"5", None, Typed("uuid", UUID(int=5))])
def test_a_correlation_of_another_type_is_nobodys(number: Identifier | None) -> None:
    assert asked_by(encoded(Answer(200, "", {}), "", number)) is None


def garbage() -> Iterator[bytes]:
    dice = random.Random(105)
    for end in range(len(GOOD)):
        yield GOOD[:end]
    for _ in range(20_000):
        data = bytearray(GOOD)
        for _ in range(dice.randint(1, 4)):
            at = dice.randrange(len(data))
            match dice.randrange(3):
                case 0:
                    data[at] = dice.randrange(256)
                case 1:
                    del data[at]
                case _:
                    data.insert(at, dice.choice((0, 0x40, 0x45, 0xC0, 0xD0, 0xD1, 0xF0, 0xFF)))
        yield bytes(data)


def test_garbage_is_read_or_refused() -> None:
    """No other error comes of any bytes: here nothing is caught."""
    read = lists = refused = 0
    for data in garbage():
        asked_by(data)
        found = answer_of(data)
        if isinstance(found, str):
            refused += 1
            continue
        read += 1
        found.readdressed("to", 1)
        found.text("total")
        found.number("total")
        lists += isinstance(found.list_part(), ListPart)
    assert min(read, lists, refused) > 100
