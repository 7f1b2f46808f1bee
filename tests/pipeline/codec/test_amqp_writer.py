"""Written values are read back as the same, by the reader that reads peers' values."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.codec.amqp_codes import TYPE_NAMES
from distributary.pipeline.codec.amqp_types import (
    Described,
    Map,
    Symbol,
    Timestamp,
    Value,
    read,
)
from distributary.pipeline.codec.amqp_writer import write
from distributary.pipeline.codec.sections import Typed

_LONG = st.integers(-(2**63), 2**63 - 1)
_ATOMS = (
    st.none()
    | st.booleans()
    | _LONG
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300)
    | st.uuids()
    | _LONG.map(Timestamp)
    | st.text(st.characters(max_codepoint=127), max_size=300).map(Symbol)
)
VALUES = st.recursive(
    _ATOMS,
    lambda inner: (
        st.lists(inner, max_size=300)
        | st.lists(st.tuples(inner, inner), max_size=8).map(lambda pairs: Map(tuple(pairs)))
        | st.tuples(inner, inner).map(lambda two: Described(*two))
    ),
    max_leaves=20,
)


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Value) -> None:
    """Also its type: true isn't 1, a symbol is no string, a timestamp no long."""
    data = write(value)
    back, stop = read(data, 0)
    assert back == value
    assert type(back) is type(value)
    assert stop == len(data)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("ubyte", 0, 2**8 - 1),
        ("ushort", 0, 2**16 - 1),
        ("uint", 0, 2**32 - 1),
        ("ulong", 0, 2**64 - 1),
        ("byte", -(2**7), 2**7 - 1),
        ("short", -(2**15), 2**15 - 1),
        ("int", -(2**31), 2**31 - 1),
        ("long", -(2**63), 2**63 - 1),
    ],
)
def test_a_typed_number_has_its_type_and_its_bounds(name: str, low: int, high: int) -> None:
    for value in (low, high):
        data = write(Typed(name, value))
        assert TYPE_NAMES[data[0]] == name
        assert read(data, 0)[0] == value
    for value in (low - 1, high + 1):
        with pytest.raises(ValueError, match=name):
            write(Typed(name, value))


def test_a_plain_number_too_large_for_a_long_is_an_error() -> None:
    with pytest.raises(ValueError, match="no long"):
        write(2**63)


def test_a_typed_value_that_is_no_number_is_written_as_what_it_is() -> None:
    one = UUID(int=7)
    assert write(Typed("uuid", one)) == write(one)
