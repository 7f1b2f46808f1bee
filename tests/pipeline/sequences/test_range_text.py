"""Runs of sequences as texts: what is written is read again, anything else is refused."""

from array import array
from base64 import b64encode
from collections import deque
from zlib import compress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from traced_memory import traced

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.sequences.range_text import (
    PART_SEQUENCES,
    parts_of,
    sequences_of,
    text_of,
    text_of_sequences,
)


def test_runs_are_short_and_can_be_read() -> None:
    """Single ones, stretches, every n-th one; an array is cut into such."""
    runs = [range(7, 8), range(10, 20), range(30, 51, 2), array("q", [60, 63, 66, 70, 71])]
    text = "7,10-19,30-50/2,60-66/3,70-71"
    assert text_of(runs) == text
    assert sequences_of(text).tolist() == [one for run in runs for one in run]
    assert list(parts_of("5-50,1-99/2")) == [range(5, 51), range(1, 100, 2)]
    assert text_of([]) == ""
    assert list(parts_of("")) == []


@given(st.sets(st.integers(0, 2**40), max_size=60))
def test_what_is_written_is_read_again(sequences: set[int]) -> None:
    """Each once, ascending."""
    assert sequences_of(text_of_sequences(sequences)).tolist() == sorted(sequences)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 30), st.integers(1, 5))))
def test_runs_that_overlap_are_read_once(drawn: list[tuple[int, int, int]]) -> None:
    runs = [range(first, first + count * step, step) for first, count, step in drawn]
    found = sequences_of(text_of(runs)).tolist()
    assert found == sorted({one for run in runs for one in run})


def test_what_has_no_order_is_packed() -> None:
    """Shorter than it would be, and read as it was written."""
    irregular = [n * 7 + n * n % 5 for n in range(10_000)]
    text = text_of_sequences(irregular)
    assert text.startswith("~")
    assert len(text) < 10_000
    assert sequences_of(text).tolist() == irregular
    assert [one for part in parts_of(text) for one in part] == irregular


@pytest.mark.parametrize("text", ["~", "~eA", "~!", "~" + b64encode(compress(b"5,-1")).decode()])
def test_what_was_not_packed_here_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="packed runs of sequences can't be read"):
        sequences_of(text)


@pytest.mark.parametrize(
    "text",
    [
        f"~{b64encode(compress(b','.join([b'1'] * 8_000_000))).decode()}",
        "0-999999999999999999",
        "5,0-999999999999999999/7",
        ",".join(["1-500"] * 300),
    ],
)
def test_a_text_that_unpacks_to_far_too_much_is_refused(text: str) -> None:
    """It is unpacked no further than it may be, and costs no more memory than that."""
    with traced() as memory:
        for read in (sequences_of, lambda text, most: deque(parts_of(text, most), maxlen=0)):
            with pytest.raises(InvalidRequest, match="more than 100000 sequences in one text"):
                read(text, 100_000)
    assert memory.peak < 8 << 20


def test_a_number_without_end_is_refused() -> None:
    """Before it is made."""
    with pytest.raises(InvalidRequest, match="too long"):
        sequences_of(f"~{b64encode(compress(b'1' * 1_000_000)).decode()}")


@pytest.mark.parametrize("step", [2, 7])
def test_parts_are_bounded_whatever_the_text_is(step: int) -> None:
    """So that their reader can let other tasks run in between."""
    sequences = [n * step + n % 3 % 2 for n in range(50_000)]
    packed = text_of_sequences(sequences)
    plain = ",".join(map(str, sequences))
    assert packed.startswith("~")
    for text in (packed, plain):
        parts = list(parts_of(text, len(sequences)))
        assert max(map(len, parts)) <= 3 * PART_SEQUENCES
        assert [one for part in parts for one in part] == sequences
        with pytest.raises(InvalidRequest, match="more than"):
            list(parts_of(text, len(sequences) - 1))


@pytest.mark.parametrize("text", ["x", "5-2", "1,,2", "1-", "-1", "1-5/0", "1 ", "٣", "1" * 19])
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is no run of sequences, such as 7, 10-19"):
        sequences_of(text)
