"""Traits of a slab's messages, and of slabs behind each other, against lists of numbers."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from pipeline.message import Slab
from pipeline.recent import SLAB_BYTES, RecentMessages
from pipeline.traits import PRIORITY, Bytes, Traits, joined

#: A message: its priority, expiry, delivery time and group.
Message = tuple[int, int, int, int]
PLAIN: Message = (PRIORITY, 0, 0, 0)

times = st.sampled_from([0, 1, 2**62])
messages = st.just(PLAIN) | st.tuples(st.integers(0, 9), times, times, st.sampled_from([0, 2**63]))
slabs = st.lists(st.lists(messages, min_size=1, max_size=4), min_size=1, max_size=6)


def traits_of(first: int, of: list[Message]) -> Traits | None:
    """As a slab of these messages has them."""
    if all(message == PLAIN for message in of):
        return None
    columns: list[bytes] = []
    for code, usual, values in zip("BqqQ", PLAIN, zip(*of, strict=True), strict=True):
        plain = all(value == usual for value in values)
        columns.append(b"" if plain else array(code, values).tobytes())
    return Traits(first, None, *columns)


def told(traits: Traits | None, count: int) -> list[Message]:
    """What the traits say of each message."""
    if traits is None:
        return [PLAIN] * count

    def column(code: str, data: Bytes, usual: int) -> list[int]:
        return list(memoryview(data).cast(code)) if data else [usual] * count

    return list(
        zip(
            column("B", traits.priority, PRIORITY),
            column("q", traits.expires_at, 0),
            column("q", traits.deliver_at, 0),
            column("Q", traits.groups, 0),
            strict=True,
        )
    )


@given(slabs)
def test_joined_slabs_say_of_each_message_what_it_said_before(parts: list[list[Message]]) -> None:
    """All plain ones have none at all; a column is there only where a message needs it."""
    everything = [message for part in parts for message in part]
    found = joined(7, None, [(len(part), traits_of(7, part)) for part in parts])
    assert told(found, len(everything)) == everything
    assert (found is None) == all(message == PLAIN for message in everything)
    expected = traits_of(7, everything)
    if found is not None and expected is not None:
        assert (found.priority, found.expires_at) == (expected.priority, expected.expires_at)
        assert (found.deliver_at, found.groups) == (expected.deliver_at, expected.groups)


def test_a_message_is_found_by_its_sequence() -> None:
    """In slabs whose sequences follow each other, and in those that list them."""
    dense = Traits(100, None, bytes([4, 9, 4]))
    assert [dense.place(n) for n in (100, 101, 102)] == [0, 1, 2]
    sparse = Traits(100, array("q", [100, 105, 300]), bytes([4, 9, 4]))
    assert [sparse.place(n) for n in (100, 105, 300)] == [0, 1, 2]


@given(slabs)
def test_small_slabs_are_handed_out_with_their_traits(parts: list[list[Message]]) -> None:
    """Also where another topic's messages lie between them; what traits take counts as memory."""
    recent = RecentMessages(head=0, bytes_max=1 << 20)
    sequences, everything, size = array("q"), [], 0
    for part in parts:
        first, count = recent.head, len(part)
        traits = traits_of(first, part)
        recent.add("mine", Slab(first, count, bytes(count), _offsets(count), traits=traits))
        sequences.extend(range(first, first + count))
        everything += part
        size += SLAB_BYTES + count + (traits.size if traits else 0)
        recent.add("other", Slab(recent.head, 1, b"", bytes(8)))
        size += SLAB_BYTES
    assert recent.bytes == size
    found = recent.find("mine", 0, 1_000)
    assert found is not None
    assert told(found.traits, found.count) == everything
    if found.traits is not None:
        assert [found.traits.place(n) for n in sequences] == list(range(len(everything)))


def _offsets(count: int) -> bytes:
    return array("i", range(count + 1)).tobytes()
