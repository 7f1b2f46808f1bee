"""Blocks that are brought to rows have the values of each of their sequences, and of no other."""

import random

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from distributary.pipeline.transforms.materialize import publication_times, settled


def some_sequences(dice: random.Random) -> list[int]:
    """Alone, in a row, over the ends of words and blocks, and far away."""
    found = set(dice.sample(range(5_000), dice.randrange(200)))
    start = dice.randrange(3_000)
    found.update(range(start, start + dice.randrange(3_000)))
    found.update(dice.sample(range(2**40, 2**40 + 2_000), 20))
    return sorted(found)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_a_bitmap_are_the_bitmap(seed: int) -> None:
    """One row for each block that has any; a cursor without exceptions has none."""
    sequences = some_sequences(random.Random(seed))
    batch = pa.RecordBatch.from_pydict(
        {
            "subscription": pa.array(["a", "none"]),
            "settled": pa.array([BitMap64(sequences).serialize(), BitMap64().serialize()]),
        }
    )
    rows = pa.Table.from_batches(settled.in_blocks(iter([batch]))).to_pylist()
    assert {row["subscription"] for row in rows} == {"a"}
    assert len({row["block"] for row in rows}) == len(rows)
    size = 64 * settled.WORDS
    found = [
        row["block"] * size + 64 * nth + bit
        for row in rows
        for nth, word in enumerate(row["words"])
        for bit in range(64)
        if word >> bit & 1
    ]
    assert sorted(found) == sequences
    assert all(len(row["words"]) == settled.WORDS for row in rows)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_times_say_each_message(seed: int) -> None:
    """In whatever order the messages of a partition come, over the bounds of batches."""
    dice = random.Random(seed)
    sequences = np.array(some_sequences(dice))
    np.random.default_rng(seed).shuffle(sequences)
    table = pa.table({"sequence": sequences, "at": sequences * 3 - 7, "group": sequences // 5})
    batches = iter(table.to_batches(max_chunksize=dice.choice((1, 100, 10_000))))
    rows = pa.Table.from_batches(publication_times.in_blocks(batches)).to_pylist()
    size = publication_times.SEQUENCES
    found = {
        row["block"] * size + nth: (at, group)
        for row in rows
        for nth, (at, group) in enumerate(zip(row["times_us"], row["groups"], strict=True))
        if at != publication_times.NO_MESSAGE
    }
    assert found == {int(one): (int(one) * 3 - 7, int(one) // 5) for one in sequences}
    assert len({row["block"] for row in rows}) == len(rows)


def test_a_partition_without_messages_has_no_blocks() -> None:
    assert list(publication_times.in_blocks(iter([]))) == []
