"""Limits of one decode: every way in which bytes bring more values than they are long."""

import struct

import pytest
from traced_memory import traced

from distributary.pipeline.amqp.dead_letter import ANNOTATIONS_MAX, DeadLetterInfo, copy, restored
from distributary.pipeline.amqp.performative import attach
from distributary.pipeline.codec.amqp_types import (
    EMPTY_ELEMENTS_MAX,
    DecodeError,
    DecodeLimits,
    Value,
    read,
)
from distributary.pipeline.codec.amqp_types import DecodeBudget as Budget
from distributary.pipeline.codec.amqp_writer import write
from distributary.pipeline.codec.sections import decode
from distributary.pipeline.management import management_messages
from distributary.pipeline.model.outcome import Reason

INFO = DeadLetterInfo("queue/orders", "queue://orders", Reason.EXHAUSTED, 10, 1_700_000_000_123_456)
LIMITS = DecodeLimits(values_max=1_024)


def array_of(constructor: bytes, count: int, content: bytes = b"") -> bytes:
    return (
        b"\xf0" + struct.pack(">II", 4 + len(constructor + content), count) + constructor + content
    )


def list_of(*elements: bytes) -> bytes:
    content = b"".join(elements)
    return b"\xd0" + struct.pack(">II", len(content) + 4, len(elements)) + content


EMPTY = [b"\x40", b"\x41", b"\x43", b"\x44", b"\x45", b"\x00\x53\x24\x40", b"\x00\x53\x24\x45"]


@pytest.mark.parametrize("constructor", EMPTY)
def test_elements_without_bytes_are_charged_in_all_arrays_together(constructor: bytes) -> None:
    """One array, or many that are each small."""
    few, many = array_of(constructor, EMPTY_ELEMENTS_MAX // 4), array_of(constructor, 65_535)
    assert len(elements(read(few, 0)[0])) == EMPTY_ELEMENTS_MAX // 4
    for data in (many, list_of(*[few] * 9), list_of(*[many] * 1_000)):
        with pytest.raises(DecodeError, match=r"more than .* values in all.*decode_values_max"):
            read(data, 0)


def elements(value: Value) -> list[Value]:
    assert isinstance(value, list)
    return value


@pytest.mark.parametrize("constructor", [b"\x40", b"\x45"])
def test_a_decode_that_is_refused_has_made_nothing(constructor: bytes) -> None:
    """10 KB that would be 65 million values: it costs no more memory than its own length."""
    data = list_of(*[array_of(constructor, 65_535)] * 1_000)
    with traced() as memory, pytest.raises(DecodeError):
        read(data, 0)
    assert memory.peak < 65_536


def test_values_have_a_limit_whatever_they_are() -> None:
    """Lists, maps, described values and arrays are all charged to the same budget."""
    for data in (
        list_of(*[b"\x45"] * 1_025),
        b"\xd1" + list_of(*[b"\x43", b"\x45"] * 513)[1:],
        list_of(*[b"\x00\x53\x24\x45"] * 600),
        array_of(b"\x54", 1_025, bytes(1_025)),
    ):
        assert read(data, 0)[1] == len(data)
        with pytest.raises(DecodeError, match="more than 1024 values in all"):
            read(data, 0, Budget(len(data), LIMITS))


def test_nesting_has_a_limit_of_its_own() -> None:
    data = b"\x40"
    for _ in range(5):
        data = list_of(data)
    assert read(data, 0, Budget(len(data), DecodeLimits(99, 5)))[1] == len(data)
    with pytest.raises(DecodeError, match="decode_depth_max"):
        read(data, 0, Budget(len(data), DecodeLimits(99, 4)))


def test_siblings_are_not_nested() -> None:
    """The depth of one value is given back for the next one."""
    data = list_of(*[list_of(list_of()), b"\x00\x53\x24\x45", array_of(b"\x45", 2)] * 50)
    assert read(data, 0, Budget(len(data), DecodeLimits(9_999, 3)))[1] == len(data)


def test_an_attach_and_a_request_are_refused_before_they_cost_anything() -> None:
    """The readers of frames and of requests are the same reader."""
    many = list_of(*[array_of(b"\x40", 65_535)] * 1_000)
    fields = list_of(b"\xa1\x01N", b"\x43", b"\x41", *[b"\x40"] * 9, many)
    body = b"\x00\x53\x12" + fields
    with pytest.raises(DecodeError, match="decode_values_max"):
        attach(struct.pack(">IBBH", 8 + len(body), 2, 0, 0) + body)
    request = b"\x00\x53\x77\xd1" + list_of(b"\xa1\x02to", many)[1:]
    with pytest.raises(DecodeError, match="decode_values_max"):
        management_messages.parse(decode(request, LIMITS))


def test_sections_of_a_message_are_values_too() -> None:
    """Three million empty data sections are 16 MiB."""
    data = b"\x00\x53\x75\xa0\x00" * 1_025
    assert decode(data).body.value == b""
    with pytest.raises(DecodeError, match="more than 1024 values"):
        decode(data, LIMITS)


def test_a_copy_for_the_dead_letters_looks_at_the_first_sections_alone() -> None:
    """However many there are behind, and whatever they are."""
    bare = b"\x00\x53\x75\xa0\x00" * 200_000 + b"no section"
    with traced() as memory:
        made = copy(b"\x00\x53\x70\xc0\x02\x01\x41" + bare, 41, INFO)
    assert memory.peak < 4 * len(bare)
    assert made.durable
    assert made.data.endswith(bare)
    assert b"x-opt-dead-letter-sequence" in made.data
    assert restored(made.data).data.endswith(bare)


def test_annotations_of_a_copy_have_a_limit() -> None:
    """As many as that are kept; of more none but ours."""
    bare = b"\x00\x53\x75\xa0\x01x"
    for count, kept in ((ANNOTATIONS_MAX, ANNOTATIONS_MAX), (ANNOTATIONS_MAX + 1, 0)):
        pairs = [write(f"k{n}") + b"\x40" for n in range(count)]
        content = b"".join(pairs)
        said = b"\x00\x53\x72\xd1" + struct.pack(">II", len(content) + 4, 2 * count) + content
        made = decode(copy(said + bare, 41, INFO).data)
        assert len(made.message_annotations.pairs) == kept + 6
