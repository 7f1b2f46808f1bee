"""Decoding in columns is decoding one by one, whatever the messages are."""

from itertools import islice
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from drawn_messages import JMS, Draw, compound, list_of, map_of, section, sized, string
from proton import Message
from pyspark.sql import SparkSession

from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.transforms.decoding.blob import blob_of
from distributary.pipeline.transforms.decoding.in_columns import decoded_in_columns
from distributary.pipeline.transforms.decoding.one_by_one import decoded_one_by_one
from distributary.pipeline.transforms.decoding.section_walk import ELEMENTS_MAX
from distributary.pipeline.transforms.materialize import messages as module
from distributary.pipeline.transforms.materialize.messages import (
    WALKED_MIN,
    decoded_columns,
    messages,
)
from examples.demo.flights import Encoder, rows


@pytest.fixture(autouse=True)
def _every_batch_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the small ones, which wouldn't be worth it."""
    monkeypatch.setattr(module, "WALKED_MIN", 0)


def fallbacks(messages: list[bytes]) -> int:
    """How many of the messages the walk in columns leaves to the decoder one by one."""
    _, fallback = decoded_in_columns(blob_of(pa.array(messages, pa.binary())))
    return int(np.count_nonzero(fallback))


def same(messages: "list[bytes] | list[bytes | None] | pa.Array") -> None:
    """Decode in both ways; types and values must be equal. NaN is equal to itself here."""
    array = messages if isinstance(messages, pa.Array) else pa.array(messages, pa.binary())
    found, wanted = decoded_columns(array), decoded_one_by_one(array)
    assert set(found) == set(wanted)
    for name, column in wanted.items():
        assert found[name].type == column.type, name
        if repr(found[name].to_pylist()) == repr(column.to_pylist()):
            continue
        for nth, (have, want) in enumerate(
            zip(found[name].to_pylist(), column.to_pylist(), strict=True)
        ):
            assert repr(have) == repr(want), (name, array[nth].as_py().hex())


@pytest.mark.parametrize("seed", range(40))
def test_drawn_batches(seed: int) -> None:
    """Common, odd and spoiled messages in any order, as an array or as a slice of one."""
    draw = Draw(seed)
    makers = (draw.message, lambda: draw.message(odd=True), draw.spoiled)
    weights = draw.dice.choice(((1, 0, 0), (8, 1, 1), (1, 1, 1), (0, 0, 1)))
    made = [
        maker() for maker in draw.dice.choices(makers, weights, k=draw.dice.choice((1, 40, 400)))
    ]
    same(made)
    array = pa.array([draw.message(), *made, draw.message()], pa.binary())
    same(array.slice(1, len(made)))
    same(array.slice(draw.dice.randint(0, 2)).cast(pa.large_binary()))


def test_common_messages_are_never_in_doubt() -> None:
    """Or all of this would be slow, and right all the same."""
    draw = Draw("common")
    assert fallbacks([draw.message() for _ in range(2_000)]) == 0


def test_every_byte_of_a_message_may_be_another() -> None:
    """Changed, cut, or cut in two: what is wrong isn't taken for right, nor the other way."""
    for nth, whole in enumerate((JMS["text"], JMS["bytes"][:-1190], _full())):
        changed = [
            whole[:at] + bytes((value,)) + whole[at + 1 :]
            for at in range(len(whole))
            for value in {
                0,
                1,
                0x40,
                0x56,
                0xA1,
                0xB1,
                0xFF,
                (whole[at] + 1) % 256,
                whole[at] ^ 0x80,
            }
        ]
        same(changed)
        same([whole[:size] for size in range(len(whole))])
        # What is cut off would be there in the bytes of the message that follows.
        same([part for size in range(len(whole)) for part in (whole[:size], whole[size:])])
        assert nth or fallbacks([whole]) == 0


def _full() -> bytes:
    """A short message with every section that there can be."""
    yes = map_of((sized(0xA3, b"k"), sized(0xA1, "ü".encode())))
    return b"".join(
        (
            section(
                0x70, list_of(b"\x56\x01", b"\x50\x09", b"\x52\x01", b"\x42", b"\x70\0\0\0\x02")
            ),
            section(0x71, yes),
            section(0x72, yes),
            section(0x73, list_of(string("i"), sized(0xA0, b"u"), *[string("ü")] * 3)),
            section(0x74, map_of((string("a"), b"\x56\x01"), (string("b"), b"\x80" + bytes(8)))),
            section(0x75, sized(0xA0, "ü".encode())),
            section(0x78, yes),
        )
    )


@pytest.mark.parametrize("kind", JMS)
def test_messages_of_jms(kind: str) -> None:
    """The kinds of JMS are all read in columns; the bodies of maps and streams by themselves."""
    same([JMS[kind]] * 40)
    assert fallbacks([JMS[kind]] * 40) == 0


def test_flights() -> None:
    """The demo's messages: nineteen properties each, some missing."""
    encoder = Encoder()
    made = [encoder.message(number, row) for number, row in islice(enumerate(rows()), 2_000)]
    same(made)
    assert fallbacks(made) == 0


def test_messages_of_proton() -> None:
    """As its encoder makes them, with bodies in each of its forms."""
    bodies = ("x", b"x", 1, None, [1, "a"], {"a": 1}, "Zürich" * 100, b"\xff" * 70_000)
    for inferred in (False, True):
        same(
            [
                bytes(
                    Message(
                        body=body, inferred=inferred, id="1", content_type="text/plain"
                    ).encode()
                )
                for body in bodies
            ]
        )


NAMED = {
    "a name that stands twice": section(0x74, map_of(*[(string("a"), string("b"))] * 2)),
    "an id that is a number": section(0x73, list_of(b"\x53\x07")),
    "an id of bytes": section(0x73, list_of(sized(0xA0, b"\x0a"))),
    "a user that is no text": section(0x73, list_of(b"\x40", sized(0xA0, b"\xff"))),
    "a text that is no text": section(
        0x73, list_of(b"\x40", sized(0xA0, b"u"), sized(0xA1, b"\xff"))
    ),
    "a surrogate": section(0x77, sized(0xA1, b"\xed\xa0\x80")),
    "a symbol beyond ASCII": section(0x73, list_of(*[b"\x40"] * 6, sized(0xA3, "ü".encode()))),
    "an unshown symbol beyond ASCII": section(
        0x73, list_of(*[b"\x40"] * 7, sized(0xA3, b"\xc3\xbc"))
    ),
    "an unshown text that is no text": section(
        0x73, list_of(*[b"\x40"] * 12, sized(0xA1, b"\xff"))
    ),
    "an annotation that is no text": section(
        0x72, map_of((sized(0xA3, b"k"), sized(0xA1, b"\xff")))
    ),
    "an annotation of 2": section(0x72, map_of((sized(0xA3, b"k"), b"\x56\x02"))),
    "a header of 2": section(0x70, list_of(b"\x56\x02")),
    "a property of 2": section(0x74, map_of((string("a"), b"\x56\x02"))),
    "a ulong beyond long": section(0x74, map_of((string("a"), b"\x80" + b"\xff" * 8))),
    "a time beyond the calendar": section(0x73, list_of(*[b"\x40"] * 9, b"\x83\x7f" + b"\xff" * 7)),
    "the last time of the calendar": section(
        0x73, list_of(*[b"\x40"] * 9, b"\x83" + (253_402_300_799_999).to_bytes(8))
    ),
    "two data sections": section(0x75, sized(0xA0, b"a")) * 2,
    "a data section and a value": section(0x75, sized(0xA0, b"a")) + section(0x77, b"\x40"),
    "fourteen fields": section(0x73, list_of(*[b"\x40"] * 14)),
    "a descriptor of eight bytes": b"\x00\x80" + (0x77).to_bytes(8) + b"\x40",
    "a descriptor that is a symbol": b"\x00" + sized(0xA3, b"amqp:amqp-value:*") + b"\x40",
    "four billion properties": section(0x74, b"\xd1\xff\xff\xff\xff\xff\xff\xff\xff"),
    "more elements than are walked": section(
        0x74, map_of(*[(string(f"{n}"), b"\x41") for n in range(ELEMENTS_MAX)])
    ),
    "a key without a value": section(0x74, compound(0xC1, 1, string("a"))),
    "an annotation without a value": section(0x72, compound(0xC1, 1, string("a"))),
    "a NaN that signals": section(0x74, map_of((string("a"), b"\x72\x7f\x80\x00\x01"))),
    "a container and a string beyond all messages": section(
        0x74, b"\xd1\xff\xff\xff\x00\0\0\0\4" + string("a") + b"\xb1\x7f\xff\xff\xffx"
    ),
    "a list that doesn't end where it says": section(0x77, b"\xc0\x03\x01\x40\x40"),
    "a map with a text that is none": section(0x77, map_of((string("a"), sized(0xA1, b"\xff")))),
    "a body of 2": section(0x77, b"\x56\x02"),
    "half a number": section(0x77, b"\xc0\x03\x01\x71\x40"),
    "two sequences": section(0x76, list_of(b"\x41")) * 2,
    "a described body": section(0x77, b"\x00\x53\x07\x41"),
    "no sections": b"",
    "text in bytes that isn't": section(0x73, list_of(*[b"\x40"] * 6, sized(0xA3, b"text/plain")))
    + section(0x75, sized(0xA0, b"\xff")),
}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_easily_forgotten(name: str) -> None:
    """Between messages that are fine, which stay it."""
    same([JMS["text"], NAMED[name], JMS["bytes"], NAMED[name], JMS["map"]] * 3)
    same([JMS["text"], NAMED[name]])


def test_a_message_of_many_properties_is_left_alone() -> None:
    """Each property is a step for all messages; thousands would be slow for all."""
    many = [(string(f"{nth}"), b"\x41") for nth in range(ELEMENTS_MAX)]
    assert fallbacks([section(0x74, map_of(*many[: ELEMENTS_MAX // 2]))]) == 0
    assert fallbacks([section(0x74, map_of(*many[: ELEMENTS_MAX // 2 + 1]))]) == 1


def test_arrays_of_every_shape() -> None:
    """No messages, no bytes, missing ones, slices of nothing."""
    same([])
    same([b""] * 40)
    same([JMS["text"], None, b"", None, JMS["bytes"]] * 10)
    whole = pa.array([JMS["text"]] * 4, pa.binary())
    same(whole.slice(2, 0))
    same(whole.slice(4))
    same(pa.array([None, None], pa.binary()))


def test_a_few_messages_are_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk has as many steps for one as for many; the columns are the same."""
    monkeypatch.undo()
    assert WALKED_MIN > 1
    monkeypatch.setattr(module, "decoded_in_columns", cast("object", None))
    decoded_columns(pa.array([JMS["text"]] * (WALKED_MIN - 1), pa.binary()))


@pytest.mark.parametrize("large", ["false", "true"])
def test_spark_gets_what_was_decoded(spark: SparkSession, large: str) -> None:
    """The columns survive the way through Arrow, also what is null in them, and wide offsets."""
    draw = Draw("spark")
    made = [draw.message() for _ in range(60)] + [draw.spoiled() for _ in range(40)]
    missing = [None] * (len(COPIED) - 1)
    log = spark.createDataFrame(
        [("message", nth, *missing, data) for nth, data in enumerate(made)],
        "record string, sequence long, topic string, day date, published_at timestamp,"
        "durable boolean, priority byte, expires_at timestamp, deliver_at timestamp,"
        "`group` long, message binary",
    ).coalesce(1)
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    try:
        found = messages(log).orderBy("sequence").collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    wanted = decoded_one_by_one(pa.array(made, pa.binary()))
    for name in ("error", "message", "body_kind", "body_text", "body_bytes", "to", "user_id"):
        assert [row[name] for row in found] == wanted[name].to_pylist(), name
    have = [None if row.properties is None else set(row.properties) for row in found]
    assert have == [
        None if pairs is None else {name for name, _ in pairs}
        for pairs in wanted["properties"].to_pylist()
    ]
    assert None in have
