"""Header attributes of a batch, and of batches behind each other, against lists of numbers."""

from array import array
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.log.recent_messages import BATCH_BYTES, RecentMessages
from distributary.pipeline.model.header_attributes import PRIORITY, HeaderAttributes, joined
from distributary.pipeline.model.record_batch import RecordBatch

#: A message: its priority, expiry, delivery time and group.
Message = tuple[int, int, int, int]
PLAIN: Message = (PRIORITY, 0, 0, 0)

times = st.sampled_from([0, 1, 2**62])
messages = st.just(PLAIN) | st.tuples(st.integers(0, 9), times, times, st.sampled_from([0, 2**63]))
batches = st.lists(st.lists(messages, min_size=1, max_size=4), min_size=1, max_size=6)


class Takes(NamedTuple):
    room: int


def attributes_of(first: int, of: list[Message]) -> HeaderAttributes | None:
    """As a batch of these messages has them."""
    if all(message == PLAIN for message in of):
        return None
    columns: list[bytes] = []
    for code, usual, values in zip("BqqQ", PLAIN, zip(*of, strict=True), strict=True):
        plain = all(value == usual for value in values)
        columns.append(b"" if plain else array(code, values).tobytes())
    return HeaderAttributes(first, None, *columns)


def told(attributes: HeaderAttributes | None, count: int) -> list[Message]:
    """The header attributes of each message."""
    if attributes is None:
        return [PLAIN] * count

    def column(code: str, data: Bytes, usual: int) -> list[int]:
        return list(memoryview(data).cast(code)) if data else [usual] * count

    return list(
        zip(
            column("B", attributes.priority, PRIORITY),
            column("q", attributes.expires_at, 0),
            column("q", attributes.deliver_at, 0),
            column("Q", attributes.groups, 0),
            strict=True,
        )
    )


@given(batches)
def test_joined_batches_say_of_each_message_what_it_said_before(parts: list[list[Message]]) -> None:
    """All plain ones have none at all; a column is there only where a message needs it."""
    everything = [message for part in parts for message in part]
    found = joined(7, None, [(len(part), attributes_of(7, part)) for part in parts])
    assert told(found, len(everything)) == everything
    assert (found is None) == all(message == PLAIN for message in everything)
    expected = attributes_of(7, everything)
    if found is not None and expected is not None:
        assert (found.priority, found.expires_at) == (expected.priority, expected.expires_at)
        assert (found.deliver_at, found.groups) == (expected.deliver_at, expected.groups)


def test_a_message_is_found_by_its_sequence() -> None:
    """In batches whose sequences follow each other, and in those that list them."""
    dense = HeaderAttributes(100, None, bytes([4, 9, 4]))
    assert [dense.place(n) for n in (100, 101, 102)] == [0, 1, 2]
    sparse = HeaderAttributes(100, array("q", [100, 105, 300]), bytes([4, 9, 4]))
    assert [sparse.place(n) for n in (100, 105, 300)] == [0, 1, 2]


@given(batches)
def test_small_batches_are_handed_out_with_their_attributes(parts: list[list[Message]]) -> None:
    """Also where another topic's messages lie between them; what header attributes take counts as
    memory."""
    recent = RecentMessages(head=0, bytes_max=1 << 20)
    sequences, everything, size = array("q"), [], 0
    for part in parts:
        first, count = recent.head, len(part)
        attributes = attributes_of(first, part)
        recent.add(
            "mine", RecordBatch(first, count, bytes(count), _offsets(count), attributes=attributes)
        )
        sequences.extend(range(first, first + count))
        everything += part
        size += BATCH_BYTES + count + (attributes.size if attributes else 0)
        recent.add("other", RecordBatch(recent.head, 1, b"", bytes(8)))
        size += BATCH_BYTES
    assert recent.bytes == size
    found = recent.find("mine", 0, Takes(1_000))
    assert found is not None
    assert told(found.attributes, found.count) == everything
    if found.attributes is not None:
        assert [found.attributes.place(n) for n in sequences] == list(range(len(everything)))


def _offsets(count: int) -> bytes:
    return array("i", range(count + 1)).tobytes()
