"""Selectors on subscriptions: what matches is delivered, what doesn't was never owed."""

import random
from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from gateway_links import Incoming, Outgoing, encoded
from gateway_peer import SELECTOR, Connect, Peer, selector
from gateway_process import Gateway, until
from proton import Delivery, Described, Message, symbol, ulong

from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.verify.verify_home import verify

Make = Callable[..., Gateway]


def publish(sender: Outgoing, *numbers: int, **fields: object) -> None:
    """Messages whose body and property `n` are these numbers; `even` says if they are."""
    sender.publish_data(
        encoded(n, properties={"n": n, "even": n % 2 == 0}, **fields) for n in numbers
    )


def consume(peer: Peer, topic: str, text: str, name: str | None = None) -> Incoming:
    return peer.receiver(topic, name, filters=selector(text))


def durable(peer: Peer, topic: str, text: str | None, name: str = "mine") -> Incoming:
    return peer.durable(topic, name, filters=selector(text) if text else None)


def amqp_error(peer: Peer, receiver: Incoming) -> tuple[str, str]:
    """Condition and sentence with which the gateway ended the link."""
    link = receiver.link
    return peer.amqp_error(receiver), str(link.remote_condition.description)


def test_a_consumer_gets_what_matches_and_nothing_else(connect: Connect, topic: str) -> None:
    """In order; other consumers of the topic get what they want."""
    peer = connect()
    even, large = consume(peer, topic, "even"), consume(peer, topic, "n > 6")
    everything = peer.receiver(topic)
    publish(peer.sender(topic), *range(10))
    assert even.bodies(5) == [0, 2, 4, 6, 8]
    assert large.bodies(3) == [7, 8, 9]
    assert everything.bodies(10) == list(range(10))
    assert even.nothing()
    assert large.nothing()


SENT = {
    "durable": True,
    "priority": 7,
    "id": "ID:one",
    "correlation_id": "ID:other",
    "subject": "flight",
    "creation_time": 1_700_000_000.0,
    "group_id": "g",
    "group_sequence": 3,
    "properties": {"carrier": "UA", "delay": 17, "late": True, "price": 2.5},
}
MATCHES = [
    "JMSDeliveryMode = 'PERSISTENT'",
    "JMSPriority = 7",
    "JMSMessageID = 'ID:one'",
    "JMSCorrelationID = 'ID:other'",
    "JMSType = 'flight'",
    "JMSTimestamp = 1700000000000",
    "JMSXGroupID = 'g' AND JMSXGroupSeq = 3",
    "carrier = 'UA'",
    "carrier IN ('AA', 'UA') AND delay BETWEEN 10 AND 20",
    "carrier LIKE 'U%' AND late AND price < 3",
    "missing IS NULL",
    "NOT (delay > 20)",
]
MATCHES_NOT = ["missing <> 'x'", "carrier > 1", "delay = '17'", "delay / 0 = 1", "JMSType IS NULL"]


def test_header_fields_and_properties_are_what_they_are_in_jms(
    connect: Connect, topic: str
) -> None:
    """One message, many consumers: each whose selector is true of it gets it."""
    peer = connect()
    matching = [consume(peer, topic, text) for text in MATCHES]
    others = [consume(peer, topic, text) for text in MATCHES_NOT]
    peer.sender(topic).publish_data([Message(body="one", **SENT).encode()])
    for receiver in matching:
        assert receiver.bodies() == ["one"]
    for receiver in others:
        assert receiver.nothing()


def test_consumers_with_one_selector_share_the_subscription(connect: Connect, topic: str) -> None:
    """In turn, and over what matches alone."""
    peer = connect()
    receivers = [
        peer.shared(topic, f"N|volatile{n}", filters=selector("even")) for n in range(1, 3)
    ]
    for receiver in receivers:
        receiver.link.flow(10)
    peer.heard()
    publish(peer.sender(topic), *range(8))
    assert [receiver.bodies(2) for receiver in receivers] == [[0, 4], [2, 6]]


def test_what_doesnt_match_is_never_owed(own_gateway: Make, connect: Connect, topic: str) -> None:
    """Nothing of it is recorded, and the floor passes it with the next that matches."""
    with own_gateway({"commit": {"interval_ms": 20}}) as gateway:
        peer = connect(topic, port=gateway.port)
        receiver = durable(peer, topic, "n >= 95")
        publish(peer.sender(topic), *range(100))
        receiver.confirm(receiver.take(5))
        table = gateway.home / "tables/topic_log"

        def settlements() -> list[dict[str, object]]:
            rows = DeltaTable(table).to_pyarrow_table().to_pylist()
            return [row for row in rows if row["record"] == "settlement"]

        until(lambda: bool(settlements()), "the settlements are in the table")
        gateway.stop()
        rows = settlements()
        assert sorted(n for row in rows for n in row["sequences"]) == list(range(95, 100))
        assert max(row["floor"] for row in rows) == 100


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_durable_subscription_keeps_what_matches(
    own_gateway: Make, connect: Connect, topic: str, end: str
) -> None:
    """While its consumer is away, over a restart, and with outcomes given before."""
    with own_gateway() as gateway:
        peer = connect(topic, port=gateway.port)
        receiver = durable(peer, topic, "even")
        publish(peer.sender(topic), *range(10))
        taken = receiver.take(3)
        receiver.confirm(taken[1:2])
        peer.drop()
        publish(connect(port=gateway.port).sender(topic), *range(10, 20))
        (gateway.stop if end == "stop" else gateway.kill)()
        gateway.start()
        publish(connect(port=gateway.port).sender(topic), *range(20, 24))
        receiver = durable(connect(topic, port=gateway.port), topic, "even")
        assert receiver.bodies(11) == [0, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22]
        assert receiver.nothing()
        report = verify(Home(gateway.home), deep=True)
        assert report.sound, report


def test_a_changed_selector_begins_a_subscription_anew(connect: Connect, topic: str) -> None:
    """Its backlog is dropped, also when a selector comes or goes; the same text changes nothing."""
    peer = connect()
    sender = peer.sender(topic)
    numbers = iter(range(100))
    for text in ("even", "n >= 0", None, "even OR n >= 0"):
        receiver = durable(peer, topic, text)
        assert receiver.nothing()
        first = next(n for n in numbers if n % 2 == 0)
        publish(sender, first)
        assert peer.leave(receiver, closed=False) == ""
        receiver = durable(peer, topic, text)
        assert receiver.bodies(1, accept=False) == [first]
        assert peer.leave(receiver, closed=False) == ""


def test_a_selector_isnt_changed_below_a_consumer(connect: Connect, topic: str) -> None:
    """Another one is refused as in use, the same one is welcome, and the consumer goes on."""
    one, other = connect(), connect()
    name = f"{topic}|global"
    first = one.shared_durable(topic, name, filters=selector("even"))
    for filters in (selector("n > 1"), None):
        refused = other.shared_durable(topic, name, filters=filters, opened=False)
        assert amqp_error(other, refused)[0] == "amqp:resource-locked"
    second = other.shared_durable(topic, name, filters=selector("even"))
    first.link.flow(1)
    one.heard()
    publish(one.sender(topic), 1, 2, 3, 4)
    assert (first.bodies(), second.bodies()) == ([2], [4])


STORY = {
    "evens": ("even", lambda n: n % 2 == 0),
    "few": ("n BETWEEN 40 AND 45 OR n = 150", lambda n: 40 <= n <= 45 or n == 150),
    "all": ("n IS NOT NULL", lambda _n: True),
    "none": ("n < 0", lambda _n: False),
}


@pytest.mark.parametrize("seed", range(2))
def test_every_message_that_matches_is_settled_once(
    own_gateway: Make, connect: Connect, topic: str, seed: int
) -> None:
    """Over kills and stops, with outcomes of all kinds and consumers that come and go: what was
    accepted, durably, doesn't come again; the rest of what matches does, and nothing else."""
    dice = random.Random(seed)
    accepted: dict[str, list[object]] = {name: [] for name in STORY}
    published = 0
    with own_gateway({"commit": {"interval_ms": 50}}) as gateway:
        for life in range(4):
            peer = connect(topic, port=gateway.port)
            there = {name: durable(peer, topic, text, name) for name, (text, _) in STORY.items()}
            for name in dice.sample(sorted(STORY), 2) if life else []:
                peer.leave(there.pop(name), closed=False)
            sender = connect(port=gateway.port).sender(topic)
            for _ in range(5):
                count = dice.randrange(1, 20)
                publish(sender, *range(published, published + count))
                published += count
                for name, receiver in there.items():
                    receiver.drain(dice.randrange(1, 12))
                    got, receiver.inbox = receiver.inbox, []
                    done = [one for one in got if dice.random() < 0.6]
                    receiver.confirm(done)
                    accepted[name] += [one.body for one in done]
                    receiver.settle([one for one in got if one not in done], Delivery.RELEASED)
            (gateway.kill if dice.random() < 0.6 else gateway.stop)()
            gateway.start()
        peer = connect(topic, port=gateway.port)
        for name, (text, matches) in STORY.items():
            receiver = durable(peer, topic, text, name)
            rest = [n for n in range(published) if matches(n) and n not in accepted[name]]
            assert receiver.bodies(len(rest)) == rest
            assert receiver.nothing()
            assert len(accepted[name]) == len(set(accepted[name]))
        report = verify(Home(gateway.home), deep=True)
        assert report.sound, report


def test_a_redefined_selector_survives_a_kill(
    own_gateway: Make, connect: Connect, topic: str
) -> None:
    """The selector of the last attach holds after the restart; its text comes from the log."""
    with own_gateway() as gateway:
        peer = connect(topic, port=gateway.port)
        for text in ("even", "n > 2"):
            peer.leave(durable(peer, topic, text), closed=False)
        publish(peer.sender(topic), *range(6))
        gateway.kill()
        gateway.start()
        receiver = durable(connect(topic, port=gateway.port), topic, "n > 2")
        assert receiver.bodies(3) == [3, 4, 5]


def test_what_comes_back_comes_back(connect: Connect, topic: str) -> None:
    """Released and failed messages are delivered again, before what is newer."""
    peer = connect()
    receiver = durable(peer, topic, "even")
    sender = peer.sender(topic)
    publish(sender, *range(6))
    taken = receiver.take(3)
    receiver.settle(taken[:2], Delivery.RELEASED)
    receiver.settle(taken[2:])
    publish(sender, *range(6, 10))
    assert receiver.bodies(4) == [0, 2, 6, 8]


def test_a_backlog_is_selected_from_the_table(
    own_gateway: Make, connect: Connect, topic: str
) -> None:
    """Pages of older messages, with little and with much credit, by several selectors."""
    tiny = {
        "delivery": {"cache_bytes": 20_000, "page_bytes": 8_192},
        "commit": {"interval_ms": 50},
    }
    with own_gateway(tiny) as gateway:
        peers = [connect(f"{topic}-{n}", port=gateway.port) for n in range(3)]
        texts = ["even", "n > 1950", "n = 7 OR n = 1234"]
        for peer, text in zip(peers, texts, strict=True):
            peer.leave(durable(peer, topic, text), closed=False)
        sender = connect(port=gateway.port).sender(topic)
        publish(sender, *range(2_000))
        other = connect(port=gateway.port).sender(f"{topic}-other")
        publish(other, *range(200))
        table = gateway.home / "tables/topic_log"
        committed = lambda: DeltaTable(table).transaction_version("sequence")  # noqa: E731
        until(lambda: committed() == 2_200, "all is in the table")
        receivers = [durable(p, topic, text) for p, text in zip(peers, texts, strict=True)]
        assert receivers[2].bodies(2) == [7, 1234]
        assert receivers[1].bodies(49) == list(range(1951, 2000))
        got: list[object] = []
        while len(got) < 1_000:
            got += receivers[0].bodies(
                random.Random(len(got)).choice([1, 3, 400, 1_000 - len(got)])
            )
        assert got[:1_000] == list(range(0, 2_000, 2))
        assert [r.nothing() for r in receivers] == [True] * 3


def test_many_messages_that_dont_match_hold_nobody_up(connect: Connect, topic: str) -> None:
    """A consumer that finds nothing in 20,000 messages hears so when it drains, and another one of
    the same topic has all of them."""
    peer, other = connect(), connect()
    receiver = consume(other, topic, "n < 0")
    everything = peer.receiver(topic)
    everything.link.flow(20_000)
    publish(connect().sender(topic), *range(20_000))
    assert everything.bodies(20_000) == list(range(20_000))
    assert receiver.nothing()


def test_a_presettled_consumer_has_its_selector(connect: Connect, topic: str) -> None:
    """A consumer that doesn't acknowledge selects, too."""
    peer = connect()
    receiver = peer.receiver(topic, presettled=True, filters=selector("NOT even"))
    publish(peer.sender(topic), *range(6))
    assert receiver.bodies(3, accept=False) == [1, 3, 5]


def test_a_message_that_isnt_amqp_has_no_properties(connect: Connect, topic: str) -> None:
    """It matches selectors that ask for absent properties."""
    peer = connect()
    there, missing = consume(peer, topic, "n IS NOT NULL"), consume(peer, topic, "n IS NULL")
    broken = b"\x00\x53\x74\xd1\x00\x00\x00\x09\x00\x00\x00\x02\xa1\x01n\xff\xff"
    sender = peer.sender(topic)
    sender.publish_data([broken])
    publish(sender, 1)
    assert [got.data for got in missing.take(1)] == [broken]
    assert there.bodies() == [1]
    assert missing.nothing()


@pytest.mark.parametrize(
    "descriptor",
    [
        ulong(SELECTOR),
        symbol("apache.org:selector-filter:string"),
        symbol("apache.org:jms-selector-filter:string"),
    ],
)
def test_a_selector_is_known_by_its_descriptor(
    connect: Connect, topic: str, descriptor: object
) -> None:
    """Its key may be any; the answer has the entry as it came, and no unknown filter."""
    peer = connect()
    said = {
        "any key": Described(descriptor, "even"),
        "unknown": Described(symbol("example:filter"), "x"),
    }
    receiver = peer.receiver(topic, filters=said)
    source = receiver.link.remote_source.filter
    source.rewind()
    source.next()
    assert source.get_object() == {symbol("any key"): Described(descriptor, "even")}
    publish(peer.sender(topic), 1, 2)
    assert receiver.bodies() == [2]


def test_a_blank_selector_is_none(connect: Connect, topic: str) -> None:
    """As JMS says; a subscription with it is the same as one without."""
    peer = connect()
    receiver = durable(peer, topic, " ")
    publish(peer.sender(topic), 1)
    assert peer.leave(receiver, closed=False) == ""
    assert durable(peer, topic, None).bodies() == [1]


def test_a_lookup_finds_the_selector(connect: Connect, topic: str) -> None:
    """The source of what was found says what it selects, and it can be ended."""
    peer = connect()
    peer.leave(durable(peer, topic, "even", topic), closed=False)
    lookup = peer.receiver(None, topic)
    found = lookup.link.remote_source.filter
    found.rewind()
    found.next()
    assert [value.value for value in found.get_object().values()] == ["even"]
    assert peer.leave(lookup, closed=True) == ""
    assert peer.unsubscribe(topic) == "amqp:not-found"


WRONG = [
    ("n >", "selector, line 1, column 4: expected a value, found the end"),
    ("n > 1\nAND ?", "selector, line 2, column 5: '?' begins no word of a selector"),
    ("JMSExpiration > 1", "JMSExpiration can't stand in a selector"),
    ("n = 1" + " OR n = 1" * 1_000, "it goes on beyond 8192 characters"),
    ("(" * 100 + "n = 1" + ")" * 100, "it is nested deeper than 64 levels"),
]


@pytest.mark.parametrize(("text", "sentence"), WRONG, ids=range(len(WRONG)))
def test_what_is_no_selector_is_refused(
    connect: Connect, topic: str, text: str, sentence: str
) -> None:
    """With the place and what was expected; the subscription is as it was."""
    peer = connect()
    peer.leave(durable(peer, topic, "even", topic), closed=False)
    publish(peer.sender(topic), 2)
    refused = peer.durable(topic, topic, filters=selector(text), opened=False)
    condition, description = amqp_error(peer, refused)
    assert condition == "amqp:invalid-field"
    assert sentence in description
    assert durable(peer, topic, "even", topic).bodies() == [2]


@pytest.mark.parametrize("value", [17, ["even"], None])
def test_a_selector_is_a_string(connect: Connect, topic: str, value: object) -> None:
    """A filter of that kind with another value is refused, not passed over."""
    peer = connect()
    filters = {"jms-selector": Described(ulong(SELECTOR), value)}
    condition, description = amqp_error(peer, peer.receiver(topic, filters=filters, opened=False))
    assert condition == "amqp:invalid-field"
    assert "must be a string" in description


def test_a_source_has_one_selector(connect: Connect, topic: str) -> None:
    """Two selectors are refused, as the gateway can't know which one is meant."""
    peer = connect()
    filters = selector("even") | {"other": Described(ulong(SELECTOR), "n > 1")}
    condition, description = amqp_error(peer, peer.receiver(topic, filters=filters, opened=False))
    assert condition == "amqp:invalid-field"
    assert "one selector" in description
