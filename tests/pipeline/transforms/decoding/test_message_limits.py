"""Limits of one message in the table `messages`: with any bytes the job goes on."""

import struct

import pyarrow as pa
import pytest
from drawn_messages import section, sized, string
from spark_log import encoded
from spark_place import Place
from traced_memory import traced

from distributary.pipeline.codec.amqp_types import DecodeLimits
from distributary.pipeline.codec.rendering import JSON_CHARS_MAX
from distributary.pipeline.transforms.decoding.blob import blob_of
from distributary.pipeline.transforms.decoding.in_columns import decoded_in_columns
from distributary.pipeline.transforms.decoding.one_by_one import MessageLimits, decoded_one_by_one

NULLS = b"\xf0" + struct.pack(">II", 5, 65_535) + b"\x40"


def wide(code: int, *elements: bytes) -> bytes:
    content = b"".join(elements)
    return struct.pack(">BII", code, len(content) + 4, len(elements)) + content


def nested_keys(levels: int) -> bytes:
    """A map whose key is a map whose key is a map ..., of a quote. Each level escapes those of the
    levels in it."""
    key = string('"')
    for _ in range(levels):
        key = wide(0xD1, key, b"\x40")
    return key


#: A body of a few bytes, or of some megabytes, and what it would become.
HOSTILE = {
    "13 million nulls in 2 KB": (wide(0xD0, *[NULLS] * 199), "decode_values_max"),
    "a list of a million empty lists": (wide(0xD0, *[b"\x45"] * 1_000_000), "decode_values_max"),
    "maps in keys of maps": (nested_keys(28), "json_chars_max"),
    "text that JSON escapes": (
        wide(0xD0, *[sized(0xB1, b"\x01" * 6_000_000)]),
        "json_chars_max",
    ),
}


def body(value: bytes) -> bytes:
    return section(0x77, value)


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_message_that_becomes_too_much_is_a_row_with_an_error(kind: str) -> None:
    """In a fraction of the memory that it would take; those beside it are decoded."""
    value, limit = HOSTILE[kind]
    messages = pa.array([encoded("before"), body(value), encoded("behind")], pa.binary())
    with traced() as memory:
        found = decoded_one_by_one(messages)
    assert memory.peak < 4 * JSON_CHARS_MAX
    before, wrong, behind = (found["error"][n].as_py() for n in range(3))
    assert (before, behind) == (None, None)
    assert limit in wrong
    assert found["body_text"].to_pylist() == ["before", None, "behind"]
    assert found["message"].to_pylist() == [None, body(value), None]
    _, fallback = decoded_in_columns(blob_of(messages))
    assert fallback.tolist() == [False, True, False], "the columns leave it to the decoder"


def test_a_property_that_becomes_too_much_leaves_nothing_behind() -> None:
    """No half of a message is in the columns."""
    few = MessageLimits(DecodeLimits(10_000), 1_000)
    pairs = [string("a"), b"\x41", string("b"), wide(0xD0, *[b"\x40"] * 500)]
    wrong = section(0x74, wide(0xD1, *pairs))
    found = decoded_one_by_one(pa.array([encoded(), wrong, encoded()], pa.binary()), few)
    assert "json_chars_max" in found["error"][1].as_py()
    assert [column[1].as_py() for name, column in found.items() if name == "properties"] == [None]
    assert {len(column) for column in found.values()} == {3}


def test_what_is_within_the_limits_is_decoded() -> None:
    """To the value, and in both ways alike."""
    limits = MessageLimits(DecodeLimits(3_000), 100_000)
    for count in (2_400, 2_600, 2_998, 2_999):
        made = pa.array([body(wide(0xD0, *[b"\x40"] * count))], pa.binary())
        found = decoded_one_by_one(made, limits)
        assert (found["error"][0].as_py() is None) is (count < 3_000)
        columns, fallback = decoded_in_columns(blob_of(made), limits)
        assert fallback[0] or columns["body_text"].equals(found["body_text"])


def test_such_messages_do_not_stop_the_job(place: Place) -> None:
    """Real Spark: they are rows with an `error` and their bytes, all others are as ever."""
    log = place.log
    log.next_group()
    log.subscribe("global/dispatchers", "flights")
    for n in range(40):
        log.publish("flights", encoded(f"{n}"))
    for value, _ in HOSTILE.values():
        log.publish("flights", body(value))
    log.publish("flights", encoded("last"))
    log.commit()
    place.materialize()
    table = place.table("messages")
    assert table.count() == 41 + len(HOSTILE)
    assert table.where("error is null").count() == 41
    errors = [row.error for row in table.where("error is not null").orderBy("sequence").collect()]
    assert [limit in said for said, (_, limit) in zip(errors, HOSTILE.values(), strict=True)] == [
        True
    ] * len(HOSTILE)
    kept = table.where("error is not null").selectExpr("length(message) AS n", "sequence")
    sizes = [row.n for row in kept.orderBy("sequence").collect()]
    assert sizes == [len(body(value)) for value, _ in HOSTILE.values()]
