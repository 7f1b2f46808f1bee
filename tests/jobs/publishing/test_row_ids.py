"""The ids of rows: the same set whatever the order, another one for another write."""

from hypothesis import given
from hypothesis import strategies as st

from distributary.jobs.publishing.row_ids import RowIds

CONTENTS = st.lists(st.binary(max_size=2), max_size=30)


def of(write: str, partition: int, contents: list[bytes]) -> list[str]:
    ids = RowIds(write, partition)
    return [ids.next(content) for content in contents]


@given(CONTENTS, st.randoms(use_true_random=False))
def test_in_any_order_they_are_the_same(contents: list[bytes], random: object) -> None:
    """Each row has one of its own, also where several are equal."""
    first = of("q-0", 0, contents)
    again = list(contents)
    random.shuffle(again)
    assert len(set(first)) == len(contents)
    assert set(of("q-0", 0, again)) == set(first)


@given(CONTENTS)
def test_another_write_or_partition_has_others(contents: list[bytes]) -> None:
    everything = [*of("q-0", 0, contents), *of("q-1", 0, contents), *of("q-0", 1, contents)]
    assert len(set(everything)) == 3 * len(contents)
