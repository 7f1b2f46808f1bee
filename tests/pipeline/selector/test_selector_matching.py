"""Matches of a topic's messages, asked for in any parts and by any number of subscriptions."""

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.pipeline.errors import SelectorFailed
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.selector.evaluate import compiled
from distributary.pipeline.selector.lexer import SelectorError
from distributary.pipeline.selector.matching import SPAN_MAX, SPANS_MAX, Selections
from distributary.pipeline.selector.parser import parse
from distributary.pipeline.selector.reading import Reader

TEXTS = [
    *("n % 2 = 0", "n > 5", "n IS NULL", "n = 3 OR n = 4", "n < 0"),
    *("n = 3", "n = 1 AND n < 5", "n = TRUE", "n = 4 OR n > 9", "n = 2 AND n = 3", "n <> 3"),
]


def message(number):
    """The bytes of a message whose property `n` is the number; None: that has no properties."""
    if number is None:
        return b"\x00\x53\x75\xa0\x01x"
    pair = b"\xa1\x01n\x81" + number.to_bytes(8, "big", signed=True)
    return b"\x00\x53\x74\xc1" + bytes([len(pair) + 1, 2]) + pair + b"\x00\x53\x75\xa0\x01x"


def batch(messages, first=0):
    """The batch of these (sequence, number) pairs; one without gaps doesn't list its sequences."""
    sequences = array("q", [sequence for sequence, _ in messages])
    blobs = [message(number) for _, number in messages]
    offsets = array("i", [0])
    for blob in blobs:
        offsets.append(offsets[-1] + len(blob))
    first = sequences[0]
    dense = sequences[-1] - first == len(sequences) - 1
    listed = None if dense else sequences
    return RecordBatch(first, len(sequences), b"".join(blobs), offsets.tobytes(), listed)


def definition(text, topic="flights"):
    return Definition(topic, shared=False, selector=text)


def directly(text, messages):
    """The matching sequences, one message at a time."""
    matches = compiled(parse(text))
    return [sequence for sequence, n in messages if matches({"n": n}.get)]


numbers = st.none() | st.integers(-3, 12)


@st.composite
def logs(draw):
    """Batches one after the other, with gaps between and in them."""
    found, sequence = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 5))):
        gap = draw(st.sampled_from([1, 1, 3]))
        messages = []
        for number in draw(st.lists(numbers, min_size=1, max_size=12)):
            messages.append((sequence, number))
            sequence += draw(st.integers(1, gap))
        found.append(messages)
        sequence = messages[-1][0] + 1 + draw(st.integers(0, 4))
    return found


@settings(max_examples=300)
@given(logs(), st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6), st.data())
def test_every_subscription_gets_what_matches_whatever_the_others_do(log, texts, data):
    """In parts of any size, in any order, with others that come, go and lag behind."""
    selections = Selections()
    for text in texts:
        selections.join(definition(text))
    places = [(0, log[0][0][0], []) for _ in texts]  # batch, wanted sequence, what matched so far
    while open_ := [n for n, (at, _, _) in enumerate(places) if at < len(log)]:
        n = data.draw(st.sampled_from(open_))
        if data.draw(st.booleans()):
            other = data.draw(st.sampled_from(TEXTS))
            selections.join(definition(other))
            selections.leave(definition(other))
        at, wanted, got = places[n]
        room, work = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 40))
        found = selections.matches(
            definition(texts[n]), batch(log[at]), wanted, room=room, work_max=work
        )
        assert found.stop > wanted
        assert len(found.sequences) <= room
        assert all(wanted <= one < found.stop for one in found.sequences)
        ended = found.stop == log[at][-1][0] + 1
        following = log[at + 1][0][0] if ended and at + 1 < len(log) else found.stop
        places[n] = (at + ended, following, got + list(found.sequences))
    every = [one for messages in log for one in messages]
    for text, (_, _, got) in zip(texts, places, strict=True):
        assert got == directly(text, every)


def test_equal_selectors_are_evaluated_once():
    """Of a message that was evaluated for one, the others are told; so are other selectors."""
    messages = [(sequence, sequence % 10) for sequence in range(100)]
    selections = Selections()
    for text in (TEXTS[0], TEXTS[0], TEXTS[1]):
        selections.join(definition(text))
    work = []
    for text in (TEXTS[0], TEXTS[0], TEXTS[1]):
        found = selections.matches(definition(text), batch(messages), 0, room=100, work_max=1_000)
        assert list(found.sequences) == directly(text, messages)
        work.append(found.work)
    assert work == [150, 1, 1]


def test_what_a_value_rules_out_is_no_work():
    """Of many selectors that name another value none is evaluated."""
    messages = [(sequence, sequence % 10) for sequence in range(100)]
    selections, texts = Selections(), [f"n = {n} AND n >= 0" for n in range(10)]
    for text in texts:
        selections.join(definition(text))
    for text, work in zip(texts, [100] + [1] * 9, strict=True):
        found = selections.matches(definition(text), batch(messages), 0, room=100, work_max=1_000)
        assert (list(found.sequences), found.work) == (directly(text, messages), work)


def test_what_is_known_ends_with_the_batch_at_hand():
    """Another subscription may have fewer of the messages in its hands: it is told of these."""
    messages = [(sequence, sequence % 10) for sequence in range(40)]
    selections = Selections()
    for text in TEXTS[:2]:
        selections.join(definition(text))
    selections.matches(definition(TEXTS[0]), batch(messages), 0, room=40, work_max=400)
    found = selections.matches(definition(TEXTS[1]), batch(messages[:10]), 3, room=40, work_max=400)
    assert (list(found.sequences), found.stop) == ([6, 7, 8, 9], 10)


def test_who_lags_behind_is_evaluated_alone():
    """No other selector needs its old messages, and results for the newest ones stay known."""
    messages = [(sequence, sequence % 10) for sequence in range(100)]
    old, new = batch(messages[:50]), batch(messages[50:])
    selections = Selections()
    for text in TEXTS[:2]:
        selections.join(definition(text))
    work = [
        selections.matches(definition(text), part, part.first, room=99, work_max=999).work
        for text, part in ((TEXTS[0], new), (TEXTS[1], old), (TEXTS[1], new), (TEXTS[0], old))
    ]
    assert work == [75, 50, 1, 50]


def test_a_new_selector_knows_nothing_yet():
    """Results from before it came say nothing of it."""
    messages = [(sequence, sequence % 10) for sequence in range(20)]
    selections = Selections()
    for text in TEXTS[:3]:
        for _ in range(2):
            selections.join(definition(text))
        for other in TEXTS[: TEXTS.index(text) + 1]:
            found = selections.matches(definition(other), batch(messages), 0, room=20, work_max=400)
            assert list(found.sequences) == directly(other, messages)


def test_who_has_no_room_or_time_goes_on_later():
    """It ends behind the last message that was looked at, and no message is passed over."""
    messages = [(sequence, sequence) for sequence in range(10, 20)]
    selections = Selections()
    selections.join(definition("n % 2 = 0"))
    found = selections.matches(definition("n % 2 = 0"), batch(messages), 11, room=2, work_max=100)
    assert (list(found.sequences), found.stop, found.work) == ([12, 14], 15, 4)
    found = selections.matches(definition("n % 2 = 0"), batch(messages), 15, room=9, work_max=2)
    assert (list(found.sequences), found.stop, found.work) == ([16], 17, 2)
    found = selections.matches(definition("n % 2 = 0"), batch(messages), 17, room=9, work_max=99)
    assert (list(found.sequences), found.stop, found.work) == ([18], 20, 3)


def test_topics_are_apart():
    """The same selector on another topic has messages of its own."""
    selections = Selections()
    for topic in ("flights", "trains"):
        for _ in range(2):
            selections.join(definition("n > 5", topic))
    for topic, number in (("flights", 9), ("trains", 1)):
        found = selections.matches(
            definition("n > 5", topic), batch([(0, number)]), 0, room=1, work_max=1
        )
        assert list(found.sequences) == ([0] if number > 5 else [])


def test_what_is_kept_is_bounded():
    """Any number of messages leave what is kept as it was; answers stay right, of old ones, too."""
    selections = Selections()
    for text in TEXTS[:2]:
        selections.join(definition(text))
    messages = [(nth * SPAN_MAX, nth % 13) for nth in range(3 * SPANS_MAX)]
    whole = batch(messages)
    for text in TEXTS[:2]:
        got, wanted = [], 0
        while wanted < whole.stop:
            found = selections.matches(definition(text), whole, wanted, room=9, work_max=2)
            got, wanted = got + list(found.sequences), found.stop
        assert got == directly(text, messages)
    assert selections.kept <= SPANS_MAX + 4


def test_what_is_left_is_forgotten():
    """Topics without subscriptions keep nothing, and a bad selector leaves no trace."""
    selections = Selections()
    selections.join(definition(None))
    selections.leave(definition(None))
    with pytest.raises(SelectorError):
        selections.join(definition("n >"))
    selections.join(definition("n > 5"))
    selections.leave(definition("n > 5"))
    assert not selections.topics


class Broken(Reader):
    """Fails where one of the names is `broken`."""

    def __init__(self, names):
        self.fails = "broken" in names
        super().__init__(names)

    def columns(self, batch, first, stop):
        if self.fails:
            raise RuntimeError("a bug")
        return super().columns(batch, first, stop)


def test_a_selector_that_fails_is_nobody_elses_failure():
    """Selectors are evaluated together, but the others keep their matches, and a question for the
    failing one names it. Asked again it is the same."""
    selections = Selections(Broken)
    good, bad = definition("n = 1"), definition("broken = 1 OR n = 1")
    selections.join(good)
    selections.join(bad)
    messages = batch([(0, 1), (1, 2), (2, 1)])
    for _ in range(2):
        found = selections.matches(good, messages, 0, room=10, work_max=10)
        assert list(found.sequences) == [0, 2]
        with pytest.raises(SelectorFailed, match="a bug") as raised:
            selections.matches(bad, messages, 0, room=10, work_max=10)
        assert raised.value.selector == bad.selector
