"""How much lies where, against a plain list of messages."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.log import backlog_counter as counters
from distributary.pipeline.log.backlog_counter import (
    TOGETHER,
    BacklogCounter,
    Volume,
    waiting,
)


@dataclass(frozen=True)
class Message:
    sequence: int
    size: int
    at: int


#: Of each group: other topics' messages before these, these with their sizes, the time that passed.
_GROUPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.lists(st.integers(0, 9), min_size=1, max_size=5),
        st.sampled_from([0, 10, TOGETHER, 5 * TOGETHER]),
    ),
    max_size=30,
)


def filled(groups: list[tuple[int, list[int], int]]) -> tuple[BacklogCounter, list[Message]]:
    counter, plain = BacklogCounter(), []
    sequence, at = 7, 1_000
    for others, sizes, passed in groups:
        sequence, at = sequence + others, at + passed
        counter.add(sequence, sequence + len(sizes), len(sizes), sum(sizes), at)
        plain += [Message(sequence + n, size, at) for n, size in enumerate(sizes)]
        sequence += len(sizes)
    return counter, plain


def volume(messages: list[Message]) -> Volume:
    return Volume(len(messages), sum(message.size for message in messages))


@given(_GROUPS, st.integers(0, 160), st.integers(0, 160))
def test_counts_are_exact_from_any_sequence_on(
    groups: list[tuple[int, list[int], int]], sequence: int, trimmed: int
) -> None:
    """Counts are exact with any sequences between; where a stretch is cut its bytes are divided.
    Only sequences about which no question comes are trimmed."""
    counter, plain = filled(groups)
    counter.trim(min(sequence, trimmed))
    rest = [message for message in plain if message.sequence >= sequence]
    found = counter.since(sequence)
    assert found.messages == len(rest)
    assert bool(found.bytes) <= bool(rest)
    if rest == plain:
        assert found == volume(plain)
    assert counter.since(sequence + 1).bytes <= found.bytes <= volume(plain).bytes


@given(_GROUPS, st.integers(0, 30))
def test_what_is_older_is_older(groups: list[tuple[int, list[int], int]], passed: int) -> None:
    """Everything below the sequence, and nearly everything that is old lies below it."""
    counter, plain = filled(groups)
    time = 1_000 + passed * TOGETHER // 2
    below = counter.older(time)
    assert all(message.at < time for message in plain if message.sequence < below)
    assert all(message.at >= time - TOGETHER for message in plain if message.sequence >= below)
    first = plain[0] if plain else None
    assert counter.published_at(0) == (first.at if first else None)


@given(_GROUPS)
def test_a_full_counter_joins_what_is_old(groups: list[tuple[int, list[int], int]]) -> None:
    """All that it has is still right as a whole, and nothing is counted where nothing lies."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counters, "STRETCHES_MAX", 4)
        counter, plain = filled(groups)
    assert len(counter) <= 4
    assert counter.since(0) == volume(plain)
    counts = [counter.since(sequence).messages for sequence in range(170)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    exact = [len([message for message in plain if message.sequence >= s]) for s in range(170)]
    assert all(count >= least for count, least in zip(counts, exact, strict=True))
    for time in range(0, 200 * TOGETHER, TOGETHER // 2):
        assert all(m.at < time for m in plain if m.sequence < counter.older(time))


def test_joined_stretches_of_one_topic_alone_stay_exact() -> None:
    """There is nothing between its messages that could be counted with them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counters, "STRETCHES_MAX", 4)
        counter, plain = filled([(0, [1, 1], TOGETHER)] * 20)
    assert len(counter) <= 4
    last = plain[-1].sequence
    counts = [counter.since(sequence).messages for sequence in range(last + 1)]
    assert counts == [min(len(plain), last + 1 - sequence) for sequence in range(last + 1)]


@given(_GROUPS, st.integers(0, 30))
def test_two_counters_make_one(groups: list[tuple[int, list[int], int]], cut: int) -> None:
    """A later counter is added behind an earlier one."""
    whole, plain = filled(groups)
    late, _ = filled(groups)
    border = plain[min(cut, len(plain) - 1)].sequence if plain else 0
    starts = [m.sequence for m in plain if m.sequence >= border and not starts_inside(plain, m)]
    begin = starts[0] if starts else border + 1_000
    late.trim(begin)
    before = BacklogCounter()
    early = [message for message in plain if message.sequence < begin]
    for message in early:
        before.add(message.sequence, message.sequence + 1, 1, message.size, message.at)
    if early and late.since(0).messages + len(early) == len(plain):
        before.extend(late)
        for sequence in range(170):
            assert before.since(sequence).messages == whole.since(sequence).messages
        assert before.since(0) == volume(plain)


def starts_inside(plain: list[Message], message: Message) -> bool:
    """Whether a message before it came with it, or soon before it."""
    return any(
        other.sequence < message.sequence and message.at - other.at < 2 * TOGETHER
        for other in plain
    )


def test_a_clock_that_was_set_back_makes_nothing_younger() -> None:
    """Times only rise."""
    counter = BacklogCounter()
    counter.add(0, 1, 1, 10, 5_000_000)
    counter.add(1, 2, 1, 10, 1_000_000)
    assert counter.older(5_000_000) == 0
    assert counter.older(5_000_001) == 2


def test_what_waits_is_what_was_read_and_what_was_not() -> None:
    """Less what is settled, or counted with what was read, beyond the position."""
    counter = BacklogCounter()
    counter.add(0, 10, 10, 1_000, 0)
    counter.add(20, 30, 10, 3_000, TOGETHER)
    assert waiting(counter, floor=0, position=0, outstanding=0, beyond=0) == Volume(20, 4_000)
    assert waiting(counter, floor=4, position=10, outstanding=2, beyond=0) == Volume(12, 3_200)
    assert waiting(counter, floor=0, position=0, outstanding=2, beyond=5) == Volume(17, 3_400)
    assert waiting(counter, floor=30, position=30, outstanding=0, beyond=0) == Volume()


#: Two topics' messages in order: the topic, other topics' messages before it, and whether a part of
#: the topic's messages ends with it.
_LAID = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.booleans()), max_size=40)


def laid(messages: list[tuple[str, int, bool]], topics: str) -> tuple[BacklogCounter, list[int]]:
    """A counter of these topics as a table tells it, which knows the bounds of parts alone."""
    sequences: dict[str, list[int]] = {topic: [] for topic in topics}
    parts, open_parts, sequence = list[list[int]](), dict[str, list[int]](), 7
    for topic, others, ends in messages:
        sequence += others + 1
        if topic in topics:
            sequences[topic].append(sequence)
            part = open_parts.setdefault(topic, [])
            part.append(sequence)
            if ends:
                parts.append(open_parts.pop(topic))
    parts += open_parts.values()
    counter = BacklogCounter()
    for part in sorted(parts, key=lambda part: part[-1]):
        counter.add(part[0], part[-1] + 1, len(part), 0, 0)
    return counter, sorted(one for some in sequences.values() for one in some)


@given(_LAID, st.sampled_from(["a", "ab"]), st.integers(2, 6))
def test_counts_are_between_their_bounds(
    messages: list[tuple[str, int, bool]], topics: str, stretches: int
) -> None:
    """From any sequence on, of a topic and of a pattern; as a whole they are exact."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counters, "STRETCHES_MAX", stretches)
        counter, sequences = laid(messages, topics)
    for start in {0, *sequences, *(one + 1 for one in sequences)}:
        exact = sum(one >= start for one in sequences)
        assert counter.at_least(start).messages <= exact <= counter.since(start).messages
    assert counter.since(0).messages == counter.at_least(0).messages == len(sequences)


@pytest.mark.parametrize("gap", [1, 2, 5])
def test_gaps_in_a_part_are_no_messages(gap: int) -> None:
    """A table says the bounds of twelve messages: from each of them on no more count than there
    are, less those that are settled."""
    sequences = [9 + nth * (gap + 1) for nth in range(12)]
    counter = BacklogCounter()
    counter.add(sequences[0], sequences[-1] + 1, 12, 0, 0)
    for read, position in enumerate(sequences):
        for settled in range(12 - read):
            sure = waiting(
                counter,
                floor=position,
                position=position,
                looked=1_000,
                outstanding=0,
                beyond=settled,
            )
            assert sure.messages <= 12 - read - settled
