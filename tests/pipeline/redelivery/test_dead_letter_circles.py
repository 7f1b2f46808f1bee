"""A chain of queues ends, and all queues of a circle know that they are in it."""

from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.redelivery.dead_letter_circles import CHAIN_MAX, chain, comes_back

NAMES = "abcdefgh"


def test_chains_and_circles() -> None:
    ways = {"x": "a", "a": "b", "b": "c", "c": "a", "own": "own", "y": "z"}
    assert chain("x", ways.get) == ["a", "b", "c", "a"]
    assert [one for one in ways if comes_back(one, chain(one, ways.get))] == ["a", "b", "c", "own"]
    assert chain("z", ways.get) == []


def test_a_chain_without_an_end_is_followed_so_far() -> None:
    long = chain("0", lambda at: str(int(at) + 1))
    assert len(long) == CHAIN_MAX
    assert comes_back("0", long)


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NAMES)))
def test_a_message_passes_each_queue_once(ways: dict[str, str]) -> None:
    """Queues to which their own dead letters would come back keep them."""
    in_force = {a: b for a, b in ways.items() if not comes_back(a, chain(a, ways.get))}
    for start in NAMES:
        at, passed = start, set[str]()
        while at in in_force:
            assert at not in passed
            passed.add(at)
            at = in_force[at]
