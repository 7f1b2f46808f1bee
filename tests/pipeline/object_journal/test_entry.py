"""An entry of a journal of objects as bytes."""

import pytest

from distributary.pipeline.errors import JournalBroken, JournalVersion
from distributary.pipeline.object_journal import entry
from distributary.pipeline.object_journal.entry import Kind

WRITER = bytes(range(16))


def test_a_group_and_a_seal_come_back() -> None:
    data = entry.encode(Kind.GROUP, 3, 17, WRITER, [b"frame", b" of it"])
    read = entry.decode(data, "a")
    assert (read.kind, read.epoch, read.group, read.writer) == (Kind.GROUP, 3, 17, WRITER)
    assert bytes(read.frame) == b"frame of it"
    assert entry.kind_of(len(data)) is Kind.GROUP
    seal = entry.encode(Kind.SEAL, 4, 18, WRITER)
    assert len(seal) == entry.SEAL_BYTES
    assert entry.kind_of(len(seal)) is entry.decode(seal, "b").kind is Kind.SEAL


def test_every_flipped_bit_is_seen() -> None:
    data = entry.encode(Kind.GROUP, 3, 17, WRITER, [b"frame"])
    for bit in range(8 * len(data)):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises((JournalBroken, JournalVersion), match="journal/3/17"):
            entry.decode(bad, "journal/3/17")


@pytest.mark.parametrize("size", [0, 3, 47])
def test_a_short_object_is_none(size: int) -> None:
    with pytest.raises(JournalBroken, match="no entry"):
        entry.decode(entry.encode(Kind.SEAL, 1, 1, WRITER)[:size], "x")


def test_names_are_sorted_as_numbers_are() -> None:
    names = [entry.name(group) for group in (1, 9, 10, 2**63)]
    assert sorted(names) == names
    assert [entry.group_of(name) for name in names] == [1, 9, 10, 2**63]
    assert entry.group_of("123") is entry.group_of("lock") is None
    assert entry.folder(9) < entry.folder(10)
