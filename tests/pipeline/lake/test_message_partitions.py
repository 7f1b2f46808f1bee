"""The partition of a message: it never changes."""

from collections import Counter

import pytest

from distributary.pipeline.lake.partitions import partitions_of

#: Keys, and their partition of 2, 3 and 7: another one loses the order of groups that are there.
PINNED = [
    (1, (0, 0, 0)),
    (0x5555_5555_FFFF_FFFF, (0, 0, 2)),
    (0x5555_5556_0000_0000, (0, 1, 2)),
    (0x8000_0000_0000_0000, (1, 1, 3)),
    (0x9E37_79B9_7F4A_7C15, (1, 1, 4)),
    (0xFFFF_FFFF_FFFF_FFFF, (1, 2, 6)),
]


@pytest.mark.parametrize(("key", "parts"), PINNED)
def test_a_key_is_in_its_partition_for_ever(key: int, parts: tuple[int, ...]) -> None:
    assert tuple(partitions_of([key], count, 0)[0] for count in (2, 3, 7)) == parts
    assert tuple(partitions_of([key], count, 5)[0] for count in (2, 3, 7)) == parts


def test_what_has_no_key_takes_turns() -> None:
    assert [partitions_of([0, 0, 1 << 63], 3, turn) for turn in range(4)] == [
        [0, 0, 1],
        [1, 1, 1],
        [2, 2, 1],
        [0, 0, 1],
    ]


def test_all_partitions_are_used_alike() -> None:
    keys = [number * 0x9E37_79B9_7F4A_7C15 % (1 << 64) for number in range(1, 30_001)]
    found = Counter(partitions_of(keys, 7, 0))
    assert set(found) == set(range(7))
    assert all(4_000 < count < 4_600 for count in found.values()), found
