"""Every combination of what an attach may ask for and how a link may end, on the wire: what the
gateway answers, and what it still owes afterwards.

The same rows without a wire are in `tests/pipeline/subscriptions/test_registry.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, product

import pytest
from gateway_fields import Fields
from gateway_frames import Frame, frame_of
from gateway_jms import Jms, consumer, no_local, selector, source, text_of
from gateway_process import Gateway, until

pytestmark = pytest.mark.usefixtures("unharmed")

_numbers = count(1)


@pytest.fixture
def publisher(gateway: Gateway) -> Iterator[Jms]:
    with Jms(gateway.port) as jms:
        yield jms


def words(*, shared: bool, global_: bool) -> list[str]:
    return ["topic"] + ["shared"] * shared + ["global"] * global_


def link_name(*, shared: bool, global_: bool, durable: bool) -> str:
    """A name as the client makes it, new for each row."""
    name = f"S{next(_numbers)}"
    if not shared:
        return name
    suffix = {(True, True): "|global", (True, False): "", (False, True): "|volatile1"}
    return name + suffix.get((durable, global_), "|global-volatile1")


def reopened(port: int, client_id: str) -> Jms:
    """A connection with a client id that is free as soon as the gateway has noticed."""

    def attempt() -> Jms | None:
        jms = Jms(port, client_id, opened=False)
        if jms.expect("open")[0]["properties"] == OPENED:
            jms.session()
            return jms
        jms.socket.close()
        return None

    return until(attempt, "the client id is free")


OPENED = {"product": "Distributary"}


def owed(jms: Jms, *, handle: int = 0, channel: int = 0) -> list[object]:
    """The bodies of all that there is for a consumer, none of which was delivered in earnest."""
    jms.credit(10, handle=handle, channel=channel, drain=True)
    came: list[Frame] = []
    while (one := jms.read()).kind == "transfer":
        came.append(one)
    assert one.kind == "flow"
    return [text_of(transfer.payload) for transfer in came]


WAYS = ("detach", "close the link", "end", "close", "drop")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("shared", "global_", "durable"),
    list(product([False, True], repeat=3)),
    ids=lambda on: "yes" if on else "no",
)
def test_how_a_link_ends_decides_what_stays(
    gateway: Gateway, publisher: Jms, shared: bool, global_: bool, durable: bool, way: str
) -> None:
    """(shared, global, durable) x (way to end): a durable subscription keeps its owed messages and
    those that come while it has no consumer, unless its link was closed; others keep nothing."""
    name = link_name(shared=shared, global_=global_, durable=durable)
    topic, client = f"matrix-{name}", f"client-{name}"
    wanted = source(topic, words(shared=shared, global_=global_), durable=durable)
    jms = Jms(gateway.port, client)
    session = jms.session()
    attach = jms.subscribed(name, wanted, channel=session)
    said = attach["source"]
    assert isinstance(said, Fields)
    assert set(said["capabilities"]) == set(words(shared=shared, global_=global_))
    assert (said["durable"], said["expiry-policy"]) == (
        (2, "never") if durable else (0, "link-detach")
    )
    publisher.publish(topic, "prefetched", "waiting")
    jms.credit(1, channel=session)
    jms.expect("transfer")
    match way:
        case "detach" | "close the link":
            assert jms.left(closed=way != "detach", channel=session).error == ""
        case "end":
            jms.send(frame_of("end", channel=session))
            jms.next(0x17)
        case "close":
            jms.send(frame_of("close"))
            jms.next(0x18)
    jms.socket.close()
    with reopened(gateway.port, client) as again:
        publisher.publish(topic, "away")
        again.subscribed(name, wanted)
        kept = durable and way != "close the link"
        assert owed(again) == (["prefetched", "waiting", "away"] if kept else [])
        publisher.publish(topic, "new")
        again.credit(10, count=10)
        assert [text_of(again.read().payload)] == ["new"]


@dataclass(frozen=True)
class Row:
    """A subscription's kind, whether it has a consumer, the other kind wanted; and the answer."""

    shared: bool
    consumed: bool
    wanted: str
    answer: str


JOINS, REDEFINES, REFUSES = "joins", "redefines", "refuses"
ROWS = [
    *(Row(True, used, "the same", JOINS) for used in (False, True)),
    Row(False, False, "the same", JOINS),
    Row(False, True, "the same", REFUSES),
    *(Row(shared, used, "the other sharing", REFUSES) for shared, used in product([0, 1], [0, 1])),
    *(Row(shared, False, what, REDEFINES) for shared in (False, True)
      for what in ("another topic", "a selector")),
    *(Row(shared, True, what, REFUSES) for shared in (False, True)
      for what in ("another topic", "a selector")),
    Row(False, False, "no-local", REDEFINES),
    Row(False, True, "no-local", REFUSES),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "global_"),
    [(row, on) for row in ROWS for on in (False, True) if not on or row.wanted != "no-local"],
)
def test_what_is_there_decides_who_may_attach(
    gateway: Gateway, publisher: Jms, row: Row, global_: bool
) -> None:
    """(shared, consumed, what is wanted) of a durable subscription: it is joined, with what it
    owes; or begun anew, without; or the link is refused, and nothing has changed."""
    name = f"S{next(_numbers)}"
    topic, fresh = f"matrix-{name}", f"matrix-{name}-fresh"
    before = source(topic, words(shared=row.shared, global_=global_), durable=True)
    shared = row.shared != (row.wanted == "the other sharing")
    filters = {"a selector": selector("JMSPriority = 4"), "no-local": no_local()}
    address = fresh if row.wanted == "another topic" else topic
    wanted = source(
        address, words(shared=shared, global_=global_), durable=True,
        filters=filters.get(row.wanted),
    )  # fmt: skip
    with Jms(gateway.port, f"client-{name}") as jms:
        jms.subscribed(name, before)
        publisher.publish(topic, "old")
        if not row.consumed:
            jms.left(closed=False)
        session = jms.session()
        jms.send(consumer(name, wanted, channel=session))
        if row.answer == REFUSES:
            attach, detach = jms.expect("attach", "detach")
            assert (attach["source"], detach["closed"]) == (None, True)
            assert detach.error == "amqp:resource-locked"
            assert detach.says
            jms.detach(closed=True, channel=session)
            if not row.consumed:
                jms.subscribed(name, before)
            assert owed(jms) == ["old"]
            return
        [attach] = jms.expect("attach")
        assert attach["source"]["filter"] == filters.get(row.wanted)
        assert owed(jms, channel=session) == (["old"] if row.answer == JOINS else [])
        publisher.publish(address, "new")
        jms.credit(10, channel=session, count=10)
        assert text_of(jms.read().payload) == "new"


#: What is there -> link name suffix, and what it is: shared, global.
THERE = {
    "exclusive": ("", False, False),
    "exclusive, global": ("", False, True),
    "shared": ("", True, False),
    "shared, global": ("|global", True, True),
}
SCOPED, GLOBALS = ("exclusive", "shared"), ("exclusive, global", "shared, global")
#: Name of the lookup's link, desired capabilities, and which of them it finds.
LOOKUPS = [
    ("", (), SCOPED),
    ("", ("shared",), SCOPED),
    ("|2", ("shared",), SCOPED),
    ("", ("global",), GLOBALS),
    ("|global", ("shared", "global"), GLOBALS),
    ("|global", (), GLOBALS),
    ("|2", (), ()),
    ("x", (), ()),
]


@pytest.mark.parametrize("ending", ["detach", "close", "consumed"])
@pytest.mark.parametrize(
    ("suffix", "desired", "finds"), LOOKUPS, ids=lambda it: str(it) if it else "none"
)
@pytest.mark.parametrize("there", THERE)
def test_what_a_lookup_finds_and_ends(
    gateway: Gateway,
    publisher: Jms,
    there: str,
    suffix: str,
    desired: tuple[str, ...],
    finds: tuple[str, ...],
    ending: str,
) -> None:
    """A null source with (name, desired capabilities) finds the durable subscription of its scope,
    with any sharing. A close of its link ends the subscription if it has no consumer, and is
    refused otherwise; a detach leaves it."""
    own_suffix, shared, global_ = THERE[there]
    name = f"S{next(_numbers)}"
    topic = f"matrix-{name}"
    wanted = source(topic, words(shared=shared, global_=global_), durable=True)
    with Jms(gateway.port, f"client-{name}") as jms:
        jms.subscribed(name + own_suffix, wanted)
        publisher.publish(topic, "kept")
        if ending != "consumed":
            jms.left(closed=False)
        session = jms.session()
        jms.send(consumer(name + suffix, None, channel=session, desired=desired or None))
        [attach] = jms.expect("attach")
        if there not in finds:
            [detach] = jms.expect("detach")
            assert (attach["source"], detach["closed"]) == (None, True)
            assert detach.error == "amqp:not-found"
        else:
            found = attach["source"]
            assert isinstance(found, Fields)
            assert (found["address"], found["durable"]) == (topic, 2)
            assert set(found["capabilities"]) == set(words(shared=shared, global_=global_))
            detach = jms.left(closed=ending != "detach", channel=session)
            assert detach.error == ("amqp:resource-locked" if ending == "consumed" else "")
        if ending != "consumed":
            jms.subscribed(name + own_suffix, wanted)
        gone = there in finds and ending == "close"
        assert owed(jms) == ([] if gone else ["kept"])
