"""The life of one message by hand-made logs: what each subscription was owed and what became of
it."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from spark_log import LogWriter, encoded, encoded_bytes

from distributary.ingest.console.log_rows.log_reader import LogReader
from distributary.ingest.console.log_rows.sight import ALL, Sight
from distributary.ingest.console.records.kinship import Kin, Relation
from distributary.ingest.console.records.message_content import (
    BodyKind,
    Branch,
    Leaf,
    content_of,
)
from distributary.ingest.console.records.message_life import (
    Held,
    MessageLife,
    StayState,
    life_of,
    with_held,
)
from distributary.ingest.console.settings.console_settings import load
from distributary.pipeline.amqp.dead_letter import DeadLetterInfo, copy, restored
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.tables.delta.store import LocalStore

SUB, DLQ = "global/s", "queue://DLQ.global/s"

DEFAULT_LIMITS = load().records


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    """Groups of six seconds; `global/s` is owed all of `t` from the beginning on."""
    made = LogWriter(tmp_path / "log")
    made.next_group()
    made.subscribe(SUB, "t")
    return made


def life(log: LogWriter, sequence: int, **options: object) -> MessageLife:
    """Of what is committed now."""
    if log.rows:
        log.commit()
    reader = LogReader(LocalStore(log.path))
    said = {"sight": ALL, "limits": DEFAULT_LIMITS} | options
    found = reader.read(lambda snapshot: life_of(snapshot, sequence, **said))
    assert found is not None
    return found


def states(found: MessageLife) -> dict[str, list[StayState]]:
    return {lane.subscription: [stay.state for stay in lane.stays] for lane in found.lanes}


def test_redelivered_and_accepted(log: LogWriter) -> None:
    """The consumers that had it, in the order of time, with the count of each delivery."""
    log.next_group()
    log.publish("t", encoded("a"), encoded("b"))
    log.next_group()
    log.settle(SUB, "t", [0], 0, outcome="modified", final=False, consumer="w-1/s")
    log.next_group()
    log.settle(SUB, "t", [0], 1, delivery_count=1, consumer="w-2/s")
    found = life(log, 0)
    [lane] = found.lanes
    [stay] = lane.stays
    assert stay.state is StayState.SETTLED
    assert [
        (one.consumer, one.outcome, one.final, one.delivery_count) for one in stay.deliveries
    ] == [
        ("w-1/s", Outcome.MODIFIED, False, 0),
        ("w-2/s", Outcome.ACCEPTED, True, 1),
    ]
    assert [one.group for one in stay.deliveries] == [3, 4]
    assert stay.since == found.message.published_at
    assert states(life(log, 1)) == {SUB: [StayState.WAITING]}
    assert found.whole
    assert found.as_of.group == 4
    assert found.as_of.sequence == 2


def test_a_message_that_is_not_there(log: LogWriter) -> None:
    """Not in the log, or of a topic that the user may not see: nothing tells these apart."""
    log.next_group()
    log.publish("t", encoded("a"))
    log.commit()
    snapshot = LogReader(LocalStore(log.path)).snapshot()
    assert life_of(snapshot, 1, sight=ALL, limits=DEFAULT_LIMITS) is None
    blind = Sight(frozenset({"other"}))
    assert life_of(snapshot, 0, sight=blind, limits=DEFAULT_LIMITS) is None


def test_what_the_user_may_not_see_is_counted_alone(log: LogWriter) -> None:
    log.subscribe("global/secret", "t")
    log.next_group()
    log.publish("t", encoded("a"))
    found = life(log, 0, sight=Sight(frozenset({"t"}), frozenset({SUB})))
    assert (list(states(found)), found.hidden) == ([SUB], 1)
    few = life(log, 0, limits=replace(DEFAULT_LIMITS, lanes_max=1))
    assert (len(few.lanes), few.hidden) == (1, 1)


def test_its_last_failure_has_two_rows_and_the_copy_is_found(log: LogWriter) -> None:
    """And from the copy the way leads back; what is redriven then is another message."""
    bad = encoded("bad")
    log.next_group()
    log.publish("t", bad)
    log.next_group()
    log.subscribe("queue/DLQ.global%2Fs", DLQ)
    log.next_group()
    at = log.now - timedelta(seconds=2)
    log.settle(SUB, "t", [0], 0, outcome="modified", final=False, delivered_at=at)
    log.settle(SUB, "t", [0], 1, outcome="dead_lettered", final=True, delivered_at=at)
    info = DeadLetterInfo(SUB, "t", Reason.EXHAUSTED, 10, 5)
    letter = copy(bad, 0, info).data
    log.publish(DLQ, letter)
    log.next_group()
    log.settle("queue/DLQ.global%2Fs", DLQ, [1], 2, outcome="redriven", final=True, consumer="")
    log.publish("t", encoded("another"), restored(letter).data)
    first, second, third = life(log, 0), life(log, 1), life(log, 3)
    [delivery] = first.lanes[0].stays[0].deliveries
    assert (delivery.outcome, delivery.final) == (Outcome.DEAD_LETTERED, True)
    assert first.kin == (Kin(Relation.DEAD_LETTER, 1, DLQ, SUB),)
    assert second.kin == (
        Kin(Relation.DEAD_LETTER_OF, 0, "t", SUB),
        Kin(Relation.REDRIVEN_TO, 3, "t", SUB),
    )
    assert third.kin == (Kin(Relation.REDRIVEN_FROM, 1, DLQ, SUB),)
    assert life(log, 2).kin == ()
    assert life(log, 0, sight=Sight(frozenset({"t"}))).kin == ()


def test_a_rewind_and_a_purge_begin_another_stay(log: LogWriter) -> None:
    """Settlements belong to the incarnation that began before their group, which names the user
    that ended it."""
    log.next_group()
    log.publish("t", encoded("a"), encoded("b"))
    log.next_group()
    log.settle(SUB, "t", [0], 1)
    log.next_group()
    log.subscribe(SUB, "t", event="rewound", floor=0)
    log.rows[-1]["by"] = "alice"
    log.next_group()
    log.settle(SUB, "t", [0], 1, consumer="w-2/s")
    log.next_group()
    log.subscribe(SUB, "t", event="purged")
    log.next_group()
    log.publish("t", encoded("c"))
    found = life(log, 0)
    assert states(found) == {SUB: [StayState.SETTLED, StayState.SETTLED]}
    [before, after] = found.lanes[0].stays
    assert before.incarnation.ended is not None
    assert (before.incarnation.ended.what, before.incarnation.ended.by) == ("rewound", "alice")
    assert after.since == after.incarnation.began.at
    assert [one.consumer for one in after.deliveries] == ["w-2/s"]
    assert states(life(log, 1)) == {SUB: [StayState.ENDED, StayState.ENDED]}
    assert states(life(log, 2)) == {SUB: [StayState.WAITING]}


def test_what_is_settled_in_the_group_of_a_rewind_counts_for_the_life_before(
    log: LogWriter,
) -> None:
    log.next_group()
    log.publish("t", encoded("a"))
    log.next_group()
    log.settle(SUB, "t", [0], 1)
    log.subscribe(SUB, "t", event="rewound", floor=0)
    assert states(life(log, 0)) == {SUB: [StayState.SETTLED, StayState.WAITING]}


def test_never_owed(log: LogWriter) -> None:
    """By a selector, by no-local, because it was for another one: each is told apart."""
    log.subscribe("global/red", "t", selector="colour = 'red'")
    log.subscribe("global/own", "t")
    log.subscribe("global/late", "t", floor=9)
    log.next_group()
    log.publish("t", encoded("a", properties={"colour": "blue"}))
    log.settle("global/own", "t", [0], 1, outcome="local", final=True, consumer="me")
    log.settle(SUB, "t", [0], 1, outcome="redriven", final=True, consumer="")
    found = life(log, 0)
    assert states(found) == {
        "global/own": [StayState.NEVER_OWED],
        "global/red": [StayState.NOT_SELECTED],
        SUB: [StayState.NEVER_OWED],
    }
    assert found.publisher == "me"
    ends = [lane.stays[0].end for lane in found.lanes if lane.stays[0].end]
    assert [end.outcome for end in ends] == [Outcome.LOCAL, Outcome.REDRIVEN]


def test_what_ended_without_a_consumer_and_what_nobody_settled(log: LogWriter) -> None:
    """An expiry has no delivery; a floor above a message without a settlement isn't hidden."""
    log.next_group()
    log.publish("t", encoded("a"), encoded("b"))
    log.next_group()
    log.settle(SUB, "t", [0], 2, outcome="expired", final=True, consumer="")
    [stay] = life(log, 0).lanes[0].stays
    assert (stay.state, stay.deliveries) == (StayState.SETTLED, ())
    assert stay.end is not None
    assert stay.end.outcome is Outcome.EXPIRED
    assert states(life(log, 1)) == {SUB: [StayState.PASSED]}


def test_a_pattern_claims_its_topics(log: LogWriter) -> None:
    log.subscribe("global/p", "pattern://a.#")
    log.next_group()
    log.publish("a.b", encoded("x"))
    log.publish("b.a", encoded("x"))
    assert states(life(log, 0)) == {"global/p": [StayState.WAITING]}
    assert states(life(log, 1)) == {}


def test_routed_copies_are_known_by_their_bytes(log: LogWriter) -> None:
    """Of two alike in one group each has its own copy."""
    alike = encoded("same", id=None)
    log.next_group()
    log.publish("t", alike, alike)
    log.publish("queue://copies", alike, alike)
    log.next_group()
    log.publish("queue://copies", alike)
    assert life(log, 1).kin == (Kin(Relation.ROUTED_TO, 3, "queue://copies"),)
    assert life(log, 2).kin == (Kin(Relation.ROUTED_FROM, 0, "t"),)
    assert life(log, 4).kin == ()


def test_what_a_gateway_holds_now(log: LogWriter) -> None:
    """It comes after what the table knows, and never against it."""
    log.next_group()
    log.publish("t", encoded("a"), encoded("b"))
    log.next_group()
    log.settle(SUB, "t", [0], 1)
    held = [Held(SUB, 1, "w-9/s", 77, 3), Held(SUB, 0, "w-9/s", 77, 3)]
    [stay] = with_held(life(log, 1), held).lanes[0].stays
    assert stay.state is StayState.IN_FLIGHT
    [delivery] = stay.deliveries
    assert (delivery.consumer, delivery.delivered_at, delivery.outcome) == ("w-9/s", 77, None)
    assert states(with_held(life(log, 0), held)) == {SUB: [StayState.SETTLED]}


def test_a_request_that_may_read_no_more_says_how_far_it_came(log: LogWriter) -> None:
    log.next_group()
    log.publish("t", encoded("a"))
    log.commit()
    for _ in range(3):
        log.next_group()
        log.settle(SUB, "t", [0], 0, outcome="released")
        log.commit()
    found = life(log, 0, limits=replace(DEFAULT_LIMITS, read_bytes_max=1))
    assert not found.whole
    assert found.looked_up_to < found.as_of.group
    assert life(log, 0).whole


def test_a_body_is_shown_as_what_it_is() -> None:
    """JSON as a tree, also in data; text; bytes as hexadecimal; each with its size."""
    tree = content_of(encoded_bytes(json.dumps({"a": [1, "x"]}).encode()), DEFAULT_LIMITS).body
    assert (tree.kind, tree.size, tree.cut) == (BodyKind.TREE, 15, False)
    inner = Branch("list", (("0", Leaf("number", "1")), ("1", Leaf("string", "x"))))
    assert tree.tree == Branch("map", (("a", inner),))
    text = content_of(encoded("plain"), DEFAULT_LIMITS).body
    assert (text.kind, text.text) == (BodyKind.TEXT, "plain")
    raw = content_of(encoded_bytes(bytes(range(20))), DEFAULT_LIMITS).body
    assert (raw.kind, raw.size) == (BodyKind.BYTES, 20)
    assert raw.text.splitlines()[1] == "000010  10 11 12 13" + " " * 36 + "  ...."
    value = content_of(encoded({"k": {"b": b"\1"}}), DEFAULT_LIMITS).body
    assert value.tree == Branch("map", (("k", Branch("map", (("b", Leaf("binary", "01")),))),))
    few = replace(DEFAULT_LIMITS, body_bytes_max=8, body_nodes_max=3)
    assert content_of(encoded("x" * 9), few).body.cut
    assert content_of(encoded([1, 2, 3, 4]), few).body.cut
    assert content_of(encoded_bytes(b"\0" * 9), few).body.cut


def test_what_is_no_message_is_bytes_with_an_error() -> None:
    found = content_of(b"\0\0nothing", DEFAULT_LIMITS)
    assert found.error
    assert found.body.kind is BodyKind.BYTES


def test_headers_and_properties_have_their_types() -> None:
    data = encoded("a", id="m-1", user_id=b"alice", subject="s", properties={"n": 5, "t": "x"})
    found = content_of(data, DEFAULT_LIMITS)
    assert found.said("message-id") == "m-1"
    assert found.said("user-id") == "alice"
    assert dict(found.application) == {"n": Leaf("long", "5"), "t": Leaf("string", "x")}
    assert dict(found.header)["durable"] == Leaf("boolean", "true")
