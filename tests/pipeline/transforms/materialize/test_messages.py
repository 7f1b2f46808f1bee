"""Decoding in Arrow batches; no JVM is needed for it."""

from datetime import UTC, datetime
from uuid import UUID

import proton
import pyarrow as pa
import pytest
from proton import Message

from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.transforms.materialize.messages import decoded
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES

Row = dict[str, object]


def rows(*messages: bytes) -> list[Row]:
    """Messages as bytes, decoded, one dict per row."""
    count = len(messages)
    columns = {name: pa.nulls(count) for name in COPIED}
    batch = pa.RecordBatch.from_pydict(columns | {"message": pa.array(messages, pa.binary())})
    (made,) = decoded(iter([batch]))
    assert made.schema.names == MESSAGES.names
    return made.to_pylist()


def row(**fields: object) -> Row:
    (only,) = rows(bytes(Message(**{"body": "x", **fields}).encode()))
    return only


def test_standard_properties() -> None:
    """Each property that JMS shows of a message has its own column."""
    found = row(
        id="ID:a-1",
        correlation_id="c",
        subject="s",
        address="flights",
        reply_to="r",
        content_type="text/plain",
        group_id="g",
        creation_time=1_700_000_000.5,
    )
    assert found["message_id"] == "ID:a-1"
    assert (found["correlation_id"], found["subject"], found["to"]) == ("c", "s", "flights")
    assert (found["reply_to"], found["content_type"], found["group_id"]) == ("r", "text/plain", "g")
    assert found["creation_time"] == datetime.fromtimestamp(1_700_000_000.5, UTC)
    assert found["error"] is None


@pytest.mark.parametrize(("sent", "shown"), [(b"ann", "ann"), (b"\xff", None)])
def test_what_only_selectors_ask_for(sent: bytes, shown: str | None) -> None:
    """The user as text, the place in its group, and how often its publisher says that it failed."""
    found = row(user_id=sent, group_id="g", group_sequence=3, delivery_count=2)
    assert (found["user_id"], found["group_sequence"], found["delivery_count"]) == (shown, 3, 2)
    assert row()["delivery_count"] == 0


IDENTIFIER = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("plain", "plain"),
        (IDENTIFIER, f"ID:AMQP_UUID:{IDENTIFIER}"),
        (proton.ulong(7), "ID:AMQP_ULONG:7"),
        (b"\x0a\xff", "ID:AMQP_BINARY:0AFF"),
    ],
)
def test_identifiers_have_the_text_form_of_jms(sent: object, shown: str) -> None:
    """An id that isn't text is shown as JMS clients show it."""
    assert row(id=sent)["message_id"] == shown


@pytest.mark.parametrize(
    ("value", "kind", "column", "stored"),
    [
        ("UA", "string", "text", "UA"),
        (proton.symbol("UA"), "symbol", "text", "UA"),
        (proton.char("U"), "char", "text", "U"),
        (proton.ubyte(7), "ubyte", "long", 7),
        (2475, "long", "long", 2475),
        (proton.ulong(2**64 - 1), "ulong", "text", str(2**64 - 1)),
        (proton.timestamp(1_700_000_000_000), "timestamp", "long", 1_700_000_000_000),
        (1.5, "double", "double", 1.5),
        (proton.float32(1.5), "float", "double", 1.5),
        (True, "boolean", "boolean", True),
        (b"\x00\x01", "binary", "binary", b"\x00\x01"),
        (IDENTIFIER, "uuid", "text", str(IDENTIFIER)),
        (proton.decimal32(16), "decimal32", "binary", b"\x00\x00\x00\x10"),
        ([1, "a"], "list", "text", '[1,"a"]'),
        (None, "null", None, None),
    ],
)
def test_an_application_property_keeps_its_type(
    value: object, kind: str, column: str | None, stored: object
) -> None:
    """The type says which column has the value; all others are null."""
    columns = dict.fromkeys(("text", "long", "double", "boolean", "binary"))
    wanted = columns | {"type": kind} | ({column: stored} if column else {})
    assert row(properties={"p": value})["properties"] == [("p", wanted)]


def test_annotations_keep_their_types() -> None:
    """Beside the properties, as these; a number's name is its digits, and what AMQP has no such key
    for isn't there."""
    sent = {proton.symbol("x-opt-a"): proton.ubyte(1), proton.ulong(7): [1, None]}
    found = row(annotations=sent, instructions={proton.symbol("x-opt-d"): "now"})
    said = dict(found["message_annotations"])
    assert {name: value["type"] for name, value in said.items()} == {
        "x-opt-a": "ubyte",
        "7": "list",
    }
    assert (said["x-opt-a"]["long"], said["7"]["text"]) == (1, "[1,null]")
    [(name, value)] = found["delivery_annotations"]
    assert (name, value["type"], value["text"]) == ("x-opt-d", "string", "now")
    assert (row()["message_annotations"], row()["delivery_annotations"]) == ([], [])
    odd = b"\x00\x53\x72\xc1\x04\x02\x41\x54\x05" + b"\x00\x53\x77\x41"
    [found] = rows(odd)
    assert (found["error"], found["message_annotations"]) == (None, [])


@pytest.mark.parametrize(
    ("fields", "kind", "text", "binary"),
    [
        ({"body": "hello"}, "value", "hello", None),
        ({"body": 12}, "value", "12", None),
        ({"body": {"a": [1, None]}}, "value", '{"a":[1,null]}', None),
        ({"body": b"\x01"}, "value", None, b"\x01"),
        ({"body": b"\x01", "inferred": True}, "data", None, b"\x01"),
        (
            {"body": b"{}", "inferred": True, "content_type": "application/json"},
            "data",
            "{}",
            b"{}",
        ),
        ({"body": [1, "a"], "inferred": True}, "sequence", '[1,"a"]', None),
    ],
)
def test_bodies(fields: Row, kind: str, text: str | None, binary: bytes | None) -> None:
    """Text where there is text, bytes where there are bytes."""
    found = row(**fields)
    assert (found["body_kind"], found["body_text"], found["body_bytes"]) == (kind, text, binary)


def test_a_message_that_is_none_is_a_row_with_an_error() -> None:
    """Rows before and after are decoded; the bad one says why it isn't, and has its bytes."""
    good = bytes(Message(body="x", properties={"a": 1}).encode())
    first, bad, last = rows(good, b"\x00\x53\x73garbage", good)
    assert first["error"] is None
    assert last["properties"] == first["properties"] != []
    assert "PROPERTIES" in str(bad["error"])
    assert bad["message"] == b"\x00\x53\x73garbage"
    own = ("error", "message")
    others = {name: value for name, value in bad.items() if name not in own}
    assert set(others.values()) == {None}


def test_a_time_beyond_the_calendar_is_null() -> None:
    """Any 64-bit number may stand as creation-time; a calendar has fewer."""
    section = b"\x00\x53\x73\xc0\x13\x0a" + b"\x40" * 9 + b"\x83\x7f" + b"\xff" * 7
    (found,) = rows(section + b"\x00\x53\x77\x41")
    assert found["creation_time"] is None
    assert found["error"] is None
