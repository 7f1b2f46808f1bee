"""Commands in messages to a coordinator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.amqp.coordinator_command import (
    NO_NUMBER,
    Declare,
    Discharge,
    command,
    id_of,
    number_of,
)
from distributary.pipeline.codec.amqp_types import DecodeError

VALUE = b"\x00\x53\x77"
ID = b"\xa0\x08" + id_of(7)


def described(code: bytes, *fields: bytes) -> bytes:
    """A message with one described list as its value."""
    content = b"".join(fields)
    return VALUE + b"\x00" + code + b"\xc0" + bytes([len(content) + 1, len(fields)]) + content


@pytest.mark.parametrize(
    ("message", "means"),
    [
        (VALUE + b"\x00\x53\x31\x45", Declare(distributed=False)),
        (described(b"\x53\x31", b"\x40"), Declare(distributed=False)),
        (described(b"\xa3\x11amqp:declare:list"), Declare(distributed=False)),
        (described(b"\x53\x31", b"\xa0\x01g"), Declare(distributed=True)),
        (described(b"\x53\x32", ID), Discharge(7, fail=False)),
        (described(b"\x53\x32", ID, b"\x42"), Discharge(7, fail=False)),
        (described(b"\x80" + bytes(7) + b"\x32", ID, b"\x41"), Discharge(7, fail=True)),
        (described(b"\xa3\x13amqp:discharge:list", ID, b"\x41"), Discharge(7, fail=True)),
        (described(b"\x53\x32", b"\xa0\x01x"), Discharge(NO_NUMBER, fail=False)),
        (described(b"\x53\x32"), Discharge(NO_NUMBER, fail=False)),
    ],
)
def test_a_command_is_what_its_descriptor_says(message: bytes, means: object) -> None:
    """By number or by name; what an absent field means is what AMQP says."""
    assert command(message) == means


@pytest.mark.parametrize(
    "message",
    [b"", VALUE + b"\x40", VALUE + b"\x00\x53\x33\x45", b"\x00\x53\x75\xa0\x00", VALUE + b"\x00"],
    ids=["empty", "null", "declared", "data", "cut"],
)
def test_whatever_else_comes_is_no_command(message: bytes) -> None:
    """One error for all of it."""
    with pytest.raises(DecodeError):
        command(message)


@given(st.binary(max_size=60))
def test_bytes_that_may_be_anything_cost_an_error(data: bytes) -> None:
    """And nothing else."""
    try:
        command(VALUE + data)
    except DecodeError:
        return


@given(st.integers(0, NO_NUMBER - 1))
def test_a_number_is_what_its_id_says(number: int) -> None:
    """And an id of other than eight bytes is no transaction's."""
    assert number_of(id_of(number)) == number
    assert number_of(id_of(number)[1:]) == number_of(None) == number_of("text") == NO_NUMBER
