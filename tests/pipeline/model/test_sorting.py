"""A batch by when its messages can go: each message is in just one part, and in the right one."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.sorting import sort

NOW = 1_000
messages = st.tuples(
    st.sampled_from([4, 4, 4, 0, 3, 5, 9]),
    st.sampled_from([0, 0, NOW - 1, NOW, NOW + 1]),
    st.sampled_from([0, 0, NOW - 1, NOW, NOW + 1, NOW + 2]),
)


@given(st.lists(messages, min_size=1, max_size=12), st.integers(1, 3), st.booleans(), st.data())
def test_a_batch_is_sorted(kinds, step, listed, data):
    """Expired at its time, due at its time; whether the batch lists its sequences or not, and
    whatever part of it is looked at."""
    batch = range(10, 10 + len(kinds) * step, step) if listed else range(10, 10 + len(kinds))
    known = dict(zip(batch, kinds, strict=True))
    priority, expires, due = zip(*kinds, strict=True)
    attributes = HeaderAttributes(
        10,
        array("q", batch) if listed else None,
        bytes(priority) if set(priority) != {4} else b"",
        array("q", expires).tobytes() if any(expires) else b"",
        array("q", due).tobytes() if any(due) else b"",
    )
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(kinds))] * 2)))
    part = batch[start:stop]
    them = sort(array("q", part) if listed else part, attributes, NOW, by_priority=True)
    expired = [one for one in part if 0 < known[one][1] <= NOW]
    delayed = [one for one in part if one not in expired and known[one][2] > NOW]
    rest = [one for one in part if one not in expired and one not in delayed]
    assert list(them.expired) == expired
    assert sorted((one, time) for time, run in them.delayed for one in run) == [
        (one, known[one][2]) for one in delayed
    ]
    assert list(them.low) == [one for one in rest if known[one][0] < 4]
    assert list(them.ready) == [one for one in rest if known[one][0] >= 4]
    assert sorted((one, level) for level, run in them.priorities for one in run) == [
        (one, known[one][0]) for one in part if one not in expired and known[one][0] != 4
    ]
    # Of one priority, they stay together.
    same = sort(array("q", part) if listed else part, attributes, NOW, by_priority=False)
    assert (list(same.ready), same.priorities) == (rest, ())
