"""Quotes of a peer's values: a line at most, whatever they are."""

import pytest
from traced_memory import traced

from distributary.pipeline.codec.amqp_types import Decimal, Described, Map, Value
from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.codec.sections import Body, Header, Message, Properties, Typed, decode
from distributary.pipeline.management import management_messages
from distributary.pipeline.management.management_messages import Answer

LONG: list[tuple[Value, str]] = [
    ("x" * 1_000_000, "'xxx"),
    (b"\x00" * 1_000_000, "b'\\x00"),
    ([None] * 1_000_000, "a list of 1000000"),
    (Map(((1, [2] * 9),)), "a map of 1 pairs"),
    (Described("d" * 9_999, [1]), "a described value"),
    (Decimal(bytes(16)), "a decimal of 16 bytes"),
]


@pytest.mark.parametrize(("value", "begins"), LONG)
def test_what_is_quoted_is_a_line(value: Value, begins: str) -> None:
    """And nothing is written out for it that isn't shown."""
    with traced() as memory:
        said = quoted(value)
    assert memory.peak < 65_536
    assert said.startswith(begins)
    assert len(said) < 400


@pytest.mark.parametrize("value", ["x", 7, -1.5, True, None, b"y"])
def test_what_is_short_is_quoted_as_it_is(value: Value) -> None:
    assert quoted(value) == repr(value)


def request(said: dict[str, Value], body: Value) -> Message:
    typed = {name: Typed("string", value) for name, value in said.items()}
    return Message(Header(), Map(), Map(), Properties(), typed, Body("value", body), Map())


LONG_TEXT = "y" * 60_000
NAMED: dict[str, Value] = {"operation": "READ", "type": "queue", "name": "q"}


@pytest.mark.parametrize(
    "message",
    [
        request({"operation": LONG_TEXT}, None),
        request({**NAMED, "type": LONG_TEXT}, None),
        request(NAMED, Map(((LONG_TEXT, 1),))),
        request(NAMED, Map((([None] * 9_999, 1),))),
        request({**NAMED, "operation": "REWIND"}, Map((("to", [LONG_TEXT] * 99),))),
    ],
)
def test_a_wrong_request_is_answered_with_a_sentence(message: Message) -> None:
    """However long what is wrong with it is."""
    answer = management_messages.parse(message)
    assert isinstance(answer, Answer)
    assert len(management_messages.encoded(answer, "", None)) < 2_000
    said = decode(management_messages.encoded(answer, "", None)).application_properties
    assert (
        said["statusDescription"].value == answer.description[: management_messages.DESCRIPTION_MAX]
    )
