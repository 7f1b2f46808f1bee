"""A life as bars and sentences, a backlog and a strip as shapes: what is drawn is what is said."""

import dataclasses
from itertools import pairwise

import pytest
from spark_log import LogWriter, encoded
from test_message_life import SUB, life, log  # noqa: F401 (a fixture)

from distributary.ingest.console.insight.backlog_drawing import HEIGHT, WIDTH, boxes, drawn
from distributary.ingest.console.insight.life_timeline import BAR_MIN, kin_words, timeline
from distributary.ingest.console.log_rows.log_reader import AsOf
from distributary.ingest.console.records.backlog_history import BacklogHistory, Bucket
from distributary.ingest.console.records.cursor_strip import MessageState, Strip, StripRange
from distributary.ingest.console.records.kinship import Kin, Relation

SECOND = 1_000_000


def test_bars_lie_in_time_and_sentences_say_the_same(log: LogWriter) -> None:  # noqa: F811
    log.next_group()
    log.publish("t", encoded("a"))
    log.next_group()
    log.settle(SUB, "t", [0], 0, outcome="modified", final=False, consumer="w-1/s")
    log.next_group()
    log.subscribe(SUB, "t", event="rewound", floor=0)
    log.rows[-1]["by"] = "alice"
    log.next_group()
    log.settle(SUB, "t", [0], 1, consumer="w-2/s", delivery_count=0)
    found = life(log, 0)
    now = found.message.published_at + 3_600 * SECOND
    [lane] = timeline(found, now).lanes
    assert (lane.state, lane.tone) == ("accepted", "good")
    assert [mark.kind for mark in lane.marks] == ["waiting", "back", "waiting", "done"]
    assert all(mark.width >= BAR_MIN for mark in lane.marks)
    assert all(0 <= mark.x <= mark.x + mark.width <= WIDTH for mark in lane.marks)
    owed, back, again, done = lane.marks
    assert owed.x < back.x < again.x <= done.x
    assert owed.x + owed.width == pytest.approx(again.x, abs=1)
    texts = " ".join(lane.sentences)
    assert "w-1/s got it" in texts
    assert "1 s later failed" in texts
    assert "The subscription was rewound by alice at" in texts
    assert "w-2/s got it" in texts


def test_ticks_can_be_read(log: LogWriter) -> None:  # noqa: F811
    log.next_group()
    log.publish("t", encoded("a"))
    for _ in range(30):
        log.next_group()
        log.settle(SUB, "t", [0], 0, outcome="released")
    found = life(log, 0)
    ticks = timeline(found, found.message.published_at + 3_600 * SECOND).ticks
    assert ticks[0].label == "published"
    places = [tick.x for tick in ticks]
    assert all(b - a > 100 for a, b in pairwise(places))


@pytest.mark.parametrize("relation", list(Relation))
def test_each_relation_has_its_words(relation: Relation) -> None:
    assert kin_words(Kin(relation, 3, "t", "global/s"))


def test_a_strip_is_as_wide_as_its_messages() -> None:
    ranges = (
        StripRange(0, 9, MessageState.SETTLED, (10, 0, 0, 0)),
        StripRange(10, 29, MessageState.MIXED, (5, 0, 5, 10)),
    )
    found = boxes(Strip(10, 30, 30, ranges, True, False, (), 0, True))
    assert [(one.x, one.width, one.height, one.kind) for one in found] == [
        (0.0, 333.33, HEIGHT, "settled"),
        (333.33, 666.67, 25.0, "settled"),
        (333.33, 666.67, 25.0, "inflight"),
        (333.33, 666.67, 50.0, "ready"),
    ]
    assert (
        found[-1].title == "10 to 29: 5 messages settled, 5 messages in flight, 10 messages waiting"
    )
    assert boxes(Strip(0, 0, 0, (), False, False, (), 0, True)) == []


def test_a_backlog_is_drawn_where_it_is_known() -> None:
    """From the beginning of the first bucket that is known; a highest value is nearly as high as
    the picture."""
    buckets = [Bucket(0, 0, 0, None), Bucket(10, 4, 1, 3), Bucket(20, 3, 0, 6)]
    history = BacklogHistory(tuple(buckets), 10, None, False, True, AsOf(1, 7, 1))
    found = drawn(history)
    assert (found.most, found.most_came) == (6, 4)
    assert found.line == "333.3,100.0 666.7,53.0 1000.0,6.0"
    assert "7 messages came, 1 message settled; 6 messages wait now" in found.words
    nobody = dataclasses.replace(history, buckets=(Bucket(0, 1, 0, None),))
    assert drawn(nobody).line == ""
    assert "isn't known" in drawn(nobody).words
