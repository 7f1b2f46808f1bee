"""Ids that were seen not long ago, against a plain list of them."""

from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.log.duplicates import ID_BYTES_MAX, MILLISECOND, Window, Windows

MOST = 1_000


def ids(text: str) -> list[bytes]:
    """One id for each letter; a dot is a message without one."""
    return [b"" if letter == "." else letter.encode() for letter in text]


def test_an_id_that_comes_again_is_a_duplicate() -> None:
    """In a later run and in the same one; what has no id never is."""
    window = Window(0, 0, MOST)
    assert window.add(ids("ab..a"), 0) == [4]
    assert window.add(ids("c.ab"), 1) == [2, 3]


def test_only_the_last_ids_count() -> None:
    """A duplicate is no new id: it pushes none out and doesn't stay for longer."""
    window = Window(3, 0, MOST)
    assert window.add(ids("abcaaa"), 0) == [3, 4, 5]
    assert window.add(ids("da"), 0) == []
    assert window.add(ids("cdab"), 0) == [0, 1, 2]


def test_an_id_counts_for_its_time() -> None:
    """From when it came first, not from when it came again."""
    window = Window(0, 10 * MILLISECOND, MOST)
    assert window.add(ids("a"), 0) == []
    assert window.add(ids("a"), 10 * MILLISECOND) == [0]
    assert window.add(ids("a"), 10 * MILLISECOND + 1) == []
    assert window.add(ids("a"), 20 * MILLISECOND) == [0]


def test_a_long_id_is_as_good_as_a_short_one() -> None:
    """Of a long one a hash is kept."""
    window = Window(0, 0, MOST)
    long = [b"x" * ID_BYTES_MAX, b"x" * (ID_BYTES_MAX + 1), b"y" * 10_000]
    assert window.add(long, 0) == []
    assert window.add(long, 0) == [0, 1, 2]


_STEPS = st.lists(
    st.tuples(st.sampled_from([0, 1, 5]), st.text("abcdefg.", max_size=8)), max_size=30
)


@given(_STEPS, st.integers(0, 6), st.integers(0, 8), st.integers(1, 6))
def test_a_window_is_a_list_of_the_last_ids(
    steps: list[tuple[int, str]], messages: int, milliseconds: int, most: int
) -> None:
    """This holds for any ids in any runs."""
    window = Window(messages, milliseconds * MILLISECOND, most)
    plain: list[tuple[int, bytes]] = []
    now = 0
    for wait, text in steps:
        now += wait * MILLISECOND
        if milliseconds:
            plain = [one for one in plain if one[0] >= now - milliseconds * MILLISECOND]
        expected = []
        for place, one in enumerate(ids(text)):
            if one and one in [known for _, known in plain]:
                expected.append(place)
            elif one:
                plain = [*plain, (now, one)][-min(messages or most, most) :]
        assert window.add(ids(text), now) == expected
        assert len(window) == len(plain)


def test_a_limit_that_is_lower_now_forgets_the_oldest() -> None:
    """At the next message."""
    windows = Windows(MOST)
    assert windows.add("t", ids("abcd"), 0, messages=9, age=0) == []
    assert windows.add("t", ids("cdb"), 0, messages=2, age=0) == [0, 1]
    assert len(windows) == 2


def test_topics_are_apart_and_the_quiet_one_forgets_first() -> None:
    """Memory is bounded over all of them."""
    windows = Windows(5)
    for topic in "xyz":
        assert windows.add(topic, ids("ab"), 0, messages=9, age=0) == []
    assert len(windows) == 4
    assert windows.add("y", ids("ab"), 0, messages=9, age=0) == [0, 1]
    assert windows.add("x", ids("ab"), 0, messages=9, age=0) == []  # z is forgotten
    assert windows.add("y", ids("ab"), 0, messages=9, age=0) == [0, 1]
    assert windows.add("z", ids("ab"), 0, messages=9, age=0) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.text("abcdef.", max_size=4), st.integers(1, 4)),
        max_size=40,
    ),
    st.integers(1, 6),
)
def test_the_count_of_all_is_right_and_bounded(
    steps: list[tuple[str, str, int]], most: int
) -> None:
    """After every step, also when limits change and topics are forgotten."""
    windows = Windows(most)
    for now, (topic, text, messages) in enumerate(steps):
        if text == "....":
            windows.forget(topic)
        windows.add(topic, ids(text), now, messages=messages, age=5)
        sizes = windows.sizes()
        assert len(windows) == sum(sizes.values()) <= most
        assert all(sizes.values()), "an empty window isn't kept"
