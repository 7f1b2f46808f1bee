"""Temporary queues and topics: a link makes one, its connection alone consumes, all may send, and
it goes with that link.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import commands
from gateway_frames import begun, composite, frame_of, make, sender_frame, words
from gateway_hostile import rss
from gateway_links import Incoming, Outgoing, encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway, until
from proton import Delivery, Described, Endpoint, symbol, ulong

Make = Callable[..., Gateway]

KINDS = ["temporary-queue", "temporary-topic"]
GONE = ("amqp:not-found", "amqp:resource-deleted")


def maker(peer: Peer, kind: str = "temporary-queue", **options: object) -> tuple[Outgoing, str]:
    """A link as JMS clients make temporary destinations, and the address."""
    link = peer.sender(None, capabilities=(kind,), dynamic=True, **options)
    return link, link.link.remote_target.address


def requester(peer: Peer) -> tuple[Incoming, str]:
    """A link as Proton and rhea make the queue for replies: it consumes from it itself."""
    link = peer.receiver(None, capabilities=(), dynamic=True)
    return link, link.link.remote_source.address


def of(peer: Peer, address: str, **options: object) -> Incoming:
    return peer.receiver(address, capabilities=(), **options)


def refused(peer: Peer, address: str, **options: object) -> tuple[str, str]:
    """The condition and the sentence with which a consumer is refused."""
    link = peer.receiver(address, opened=False, **options)
    peer.until(lambda: peer.refused(link.link), "a refusal")
    condition = link.link.remote_condition
    peer.amqp_error(link)
    return str(condition.name), str(condition.description)


def ended(link: Incoming | Outgoing) -> str:
    """The condition with which the gateway ends the link."""
    link.peer.until(lambda: link.link.state & Endpoint.REMOTE_CLOSED, "the link's end")
    condition = link.link.remote_condition
    assert "has been deleted" in condition.description
    return str(condition.name)


def there(peer: Peer, address: str) -> bool:
    """Whether the destination is there, asked by a message for it."""
    relay = peer.sender(None)
    delivery = relay.send(encoded("?", address=address))
    outcome = relay.outcome(delivery)
    if outcome == Delivery.REJECTED:
        assert delivery.remote.condition.name == "amqp:not-found"
    peer.leave(relay, closed=True)
    return outcome == Delivery.ACCEPTED


def test_the_answer_says_what_was_made(gateway: Gateway) -> None:
    """In the frames that JMS clients send and read: address, dynamic, kind, and the lifetime that
    it truly has, whichever was asked for."""
    for number, policy in enumerate((0x2B, 0x2C, 0x2E, None)):
        lifetime = {symbol("lifetime-policy"): Described(ulong(policy), [])} if policy else None
        target = make(
            "target",
            durable=2,
            expiry_policy="never",
            dynamic=True,
            dynamic_node_properties=lifetime,
            capabilities=["temporary-topic"],
        )
        with begun(gateway.port, f"made-{number}", sender_frame("s", target)) as raw:
            _, _, attach, flow = raw.expect("open", "begin", "attach", "flow")
            answered = attach["target"]
            assert answered["address"].startswith("temp-topic://")
            assert answered["dynamic"] is True
            assert answered["capabilities"] == ["temporary-topic"]
            assert (answered["durable"], answered["expiry-policy"]) == (0, "link-detach")
            [(key, value)] = answered["dynamic-node-properties"].items()
            assert (key, value.descriptor) == ("lifetime-policy", 0x2B)
            assert flow["link-credit"] > 0
            raw.send(frame_of("detach", handle=0, closed=True), frame_of("close"))
            assert [one["closed"] for one in raw.expect("detach", "close")[:1]] == [True]


def test_names_are_nobodys_guess(connect: Connect) -> None:
    """Each is new, and as long as a random number of 128 bits."""
    peer = connect()
    addresses = {maker(peer)[1] for _ in range(20)} | {requester(peer)[1] for _ in range(20)}
    assert len(addresses) == 40
    assert {len(address.rpartition("/")[2]) for address in addresses} == {32}


@pytest.mark.parametrize("durable", [True, False], ids=["persistent", "non-persistent"])
def test_a_reply_finds_its_requester(connect: Connect, topic: str, durable: bool) -> None:
    """Through the anonymous relay of another connection, and through a link for it alone."""
    client, server = connect(), connect()
    replies, address = requester(client)
    requests = server.receiver(f"queue://{topic}", capabilities=())
    ask = encoded("how much?", durable=durable, reply_to=address)
    client.sender(f"queue://{topic}").publish_data([ask])
    [request] = requests.take()
    reply_to = request.message.reply_to
    assert reply_to == address
    server.sender(None).publish_data([encoded("a lot", durable=durable, address=reply_to)])
    server.sender(reply_to).publish_data([encoded("really", durable=durable)])
    assert replies.bodies(2) == ["a lot", "really"]


def test_a_queue_keeps_what_comes_before_its_consumer(connect: Connect) -> None:
    """From its making on; the link that made it may send, too, and any of its connection's
    sessions may consume, each message once."""
    peer = connect()
    made, address = maker(peer)
    made.publish(0)
    connect().sender(address).publish(1, 2, 3)
    first, second = of(peer, address), of(peer, address, session=peer.new_session())
    first.link.flow(2)
    second.link.flow(2)
    assert sorted([*first.bodies(2), *second.bodies(2)]) == [0, 1, 2, 3]
    assert peer.leave(first, closed=True) == peer.leave(second, closed=False) == ""
    made.publish("still there")
    assert of(peer, address).bodies() == ["still there"]


def test_what_a_consumer_gives_back_comes_again(connect: Connect) -> None:
    """As from any queue: what was released without a count, what failed with one more."""
    peer = connect()
    made, address = maker(peer)
    made.publish("a", "b", "c")
    consumer = of(peer, address)
    taken = consumer.take(3)
    taken[1].delivery.local.failed = True
    consumer.confirm(taken[:1], Delivery.RELEASED)
    consumer.confirm(taken[1:2], Delivery.MODIFIED)
    peer.leave(consumer, closed=True)
    got = of(peer, address).take(3)
    assert [(one.body, one.message.delivery_count) for one in got] == [("a", 0), ("b", 1), ("c", 0)]


def test_a_topic_gives_each_consumer_all(connect: Connect) -> None:
    """As a topic does; and each of a shared subscription's consumers a share."""
    peer = connect()
    made, address = maker(peer, "temporary-topic")
    made.publish("before anybody listens")
    listeners = [of(peer, address), of(peer, address)]
    shared = [
        peer.receiver(address, name, capabilities=("temporary-topic", "shared"))
        for name in ("s|volatile1", "s|volatile2")
    ]
    for one in shared:
        one.link.flow(1)
    connect().sender(address).publish("x", "y")
    assert [one.bodies(2) for one in listeners] == [["x", "y"]] * 2
    assert sorted(body for one in shared for body in one.bodies()) == ["x", "y"]
    peer.leave(made, closed=True)
    assert {ended(one) for one in (*listeners, *shared)} == {"amqp:resource-deleted"}
    # The name of the shared subscription is free for another topic.
    other = maker(peer, "temporary-topic")[1]
    words = ("temporary-topic", "shared")
    peer.receiver(other, "s|volatile1", capabilities=words, session=peer.new_session())


@pytest.mark.parametrize("kind", KINDS)
def test_only_its_own_connection_consumes(connect: Connect, kind: str) -> None:
    """Another one is told so, whatever it calls the address; it takes nothing away."""
    peer, stranger = connect(), connect()
    made, address = maker(peer, kind)
    consumer = of(peer, address)
    condition, sentence = refused(stranger, address, capabilities=())
    assert condition == "amqp:resource-locked"
    assert address in sentence
    assert "another connection" in sentence
    name = address.partition("://")[2]
    assert refused(stranger, name, capabilities=(kind,))[0] == "amqp:resource-locked"
    assert refused(stranger, address, capabilities=(), copy=True)[0] == "amqp:resource-locked"
    shared = kind.split("-")[1], "shared"
    assert refused(stranger, address, capabilities=shared)[0] == "amqp:resource-locked"
    made.publish("mine")
    assert consumer.bodies() == ["mine"]


def test_there_is_nothing_durable_about_it(connect: Connect) -> None:
    """A durable subscription on a temporary topic is refused so that JMS clients say
    InvalidDestination; a dynamic source that wants one leaves nothing behind."""
    peer = connect()
    address = maker(peer, "temporary-topic")[1]
    condition, sentence = refused(peer, address, durable=True, name="d")
    assert condition == "amqp:not-found"
    assert "temporary" in sentence
    assert "durable" in sentence
    link = peer.receiver(None, "d", durable=True, dynamic=True, opened=False)
    assert peer.amqp_error(link) == "amqp:not-found"
    assert peer.unsubscribe("d") == "amqp:not-found"


ENDS = ["closed", "detached", "session", "connection", "dropped"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ENDS)
def test_it_goes_with_the_link_that_made_it(connect: Connect, kind: str, how: str) -> None:
    """In any way in which that link ends: its other links hear of it, and no client finds it any
    more."""
    peer, other = connect(), connect()
    session = peer.new_session()
    made, address = maker(peer, kind, session=session)
    consumer, browser = of(peer, address), of(peer, address, copy=True)
    producer = other.sender(address)
    producer.publish("before")
    match how:
        case "closed" | "detached":
            assert peer.leave(made, closed=how == "closed") == ""
        case "session":
            session.close()
            peer.write()
        case "connection":
            peer.close()
        case "dropped":
            peer.drop()
    assert ended(producer) == "amqp:resource-deleted"
    if how not in ("connection", "dropped"):
        assert ended(consumer) == ended(browser) == "amqp:resource-deleted"
        assert refused(peer, address, capabilities=())[0] == "amqp:not-found"
    assert refused(other, address, capabilities=())[0] == "amqp:not-found"
    late = other.sender(address, opened=False)
    assert other.amqp_error(late) == "amqp:not-found"
    assert not there(other, address)


@pytest.mark.parametrize("how", ENDS)
def test_a_requester_takes_its_queue_along(connect: Connect, how: str) -> None:
    """The link that made it is its consumer, here with messages in its hands."""
    peer, other = connect(), connect()
    replies, address = requester(peer)
    other.sender(address).publish("a", "b", "c")
    replies.take(2)
    match how:
        case "closed" | "detached":
            assert peer.leave(replies, closed=how == "closed") == ""
        case "session":
            peer.session.close()
            peer.write()
        case "connection":
            peer.close()
        case "dropped":
            peer.drop()
    until(lambda: not there(other, address), "the queue is gone")


def test_a_closed_connection_hears_nothing_more(gateway: Gateway) -> None:
    """JMS clients say nothing but close: links of theirs that the end of their own destination
    ends aren't detached one by one behind it."""
    target = make("target", dynamic=True, capabilities=["temporary-queue"])
    with begun(gateway.port, "closes", sender_frame("s", target)) as raw:
        address = raw.expect("open", "begin", "attach", "flow")[2]["target"]["address"]
        more = sender_frame("t", composite(0x29, address, *[None] * 5, words("queue")), handle=1)
        raw.send(more)
        raw.expect("attach", "flow")
        raw.send(frame_of("close"))
        assert [one.kind for one in raw.until_end()] == ["close"]


def test_a_reply_that_is_under_way_finds_nobody(connect: Connect, topic: str) -> None:
    """The requester leaves while replies come in: each of them is accepted or rejected, and a link
    for the queue alone ends with it. No other client is harmed."""
    server, witness = connect(), connect().receiver(topic)
    relay, known = server.sender(None), ("amqp:not-found", None)
    for _ in range(20):
        client = connect()
        replies, address = requester(client)
        direct = server.sender(address)
        sent = [relay.send(encoded(n, address=address)) for n in range(10)]
        for n in range(10):
            direct.send(encoded(n))
        server.write()
        client.leave(replies, closed=True)
        outcomes = [relay.outcome(delivery) for delivery in sent]
        assert set(outcomes) <= {Delivery.ACCEPTED, Delivery.REJECTED}
        conditions = [one.remote.condition for one in sent]
        assert {condition and condition.name for condition in conditions} <= set(known)
        assert ended(direct) == "amqp:resource-deleted"
        client.close()
    relay.publish_data([encoded("still served", address=topic)])
    assert witness.bodies() == ["still served"]


@pytest.mark.parametrize("durable", [True, False], ids=["persistent", "non-persistent"])
def test_what_is_rejected_is_rejected_alone(connect: Connect, topic: str, durable: bool) -> None:
    """A message on the relay for a queue that is gone hurts neither those around it nor the link:
    a server that answers many goes on when one of them has left."""
    peer, listener = connect(), connect().receiver(topic)
    made, address = maker(peer)
    peer.leave(made, closed=True)
    relay = peer.sender(None)
    for _ in range(2):
        sent = [
            relay.send(encoded(n, address=to, durable=durable))
            for n, to in enumerate((topic, address, topic, address))
        ]
        outcomes = [relay.outcome(delivery) for delivery in sent]
        assert outcomes == [Delivery.ACCEPTED, Delivery.REJECTED] * 2
        assert sent[1].remote.condition.name == "amqp:not-found"
        assert address in sent[1].remote.condition.description
        assert listener.bodies(2) == [0, 2]


def test_a_link_that_the_gateway_ends_takes_it_along(connect: Connect) -> None:
    """A requester that can't have its next message is detached; its queue goes with it."""
    peer, other = connect(), connect()
    link = peer.session.receiver("small")
    link.source.dynamic = True
    link.max_message_size = 100
    link.owner = Incoming(peer, link)
    link.open()
    peer.attached(link)
    address = link.remote_source.address
    link.flow(10)
    peer.write()
    producer = other.sender(address)
    producer.send(encoded("x" * 200))
    assert ended(producer) == "amqp:resource-deleted"
    peer.until(lambda: peer.refused(link), "the link's end")
    assert link.remote_condition.name == "amqp:link:message-size-exceeded"
    assert not there(other, address)


def test_a_connection_has_so_many_and_no_more(own_gateway: Make, connect: Connect) -> None:
    """One more is refused with the setting's name; what is refused, for this or anything else,
    doesn't count, and what has gone counts no more."""
    with own_gateway({"amqp": {"temporary_max": 2}}) as gateway:
        peer, other = connect(port=gateway.port), connect(port=gateway.port)
        first = maker(peer)[0]
        for _ in range(3):
            link = peer.receiver(None, "d", durable=True, dynamic=True, opened=False)
            assert peer.amqp_error(link) == "amqp:not-found"
        requester(peer)
        third = peer.sender(None, dynamic=True, opened=False)
        peer.until(lambda: peer.refused(third.link), "a refusal")
        assert "amqp.temporary_max" in third.link.remote_condition.description
        assert peer.amqp_error(third) == "amqp:resource-limit-exceeded"
        maker(other)
        peer.leave(first, closed=True)
        maker(peer)


def test_none_outlives_the_gateway(own_gateway: Make, connect: Connect) -> None:
    """After a stop as after a kill its name means nothing, and no subscription is left of it."""
    with own_gateway() as gateway:
        for end in (gateway.stop, gateway.kill):
            peer = connect(port=gateway.port)
            made, address = maker(peer)
            made.publish("lost")
            end()
            gateway.start()
            assert gateway.events("store.opened")[-1]["subscriptions"] == 0
            peer = connect(port=gateway.port)
            assert refused(peer, address, capabilities=())[0] == "amqp:not-found"
        gateway.stop()
        assert commands().run("verify", "--home", gateway.home).returncode == 0
        info = commands().run("info", "--home", gateway.home)
        assert info.returncode == 0
        shown = info.stdout
        assert "temp-queue:// (2 of them)" in shown


def test_a_queue_may_be_larger_than_memory(own_gateway: Make, connect: Connect) -> None:
    """Messages that have left memory are read from the table, for its consumer and for a browser;
    when the queue goes in the middle of that, other clients don't notice."""
    limits = {"delivery": {"cache_bytes": 200_000, "page_bytes": 100_000}}
    with own_gateway(limits) as gateway:
        peer, other = connect(port=gateway.port), connect(port=gateway.port)
        kept = other.sender("queue://kept")
        made, address = maker(peer)
        for first in range(0, 4_000, 1_000):
            bodies = [f"{n:04}" + "x" * 500 for n in range(first, first + 1_000)]
            made.publish(*bodies)
            kept.publish(*bodies)
        browser, consumer = of(peer, address, copy=True), of(peer, address)
        for link in (browser, consumer):
            assert [str(body)[:4] for body in link.bodies(1_500)] == [
                f"{n:04}" for n in range(1_500)
            ]
            link.link.flow(2_000)
        peer.leave(made, closed=True)
        assert {ended(browser), ended(consumer)} == {"amqp:resource-deleted"}
        assert len(of(other, "queue://kept").bodies(4_000)) == 4_000


PROGRAM = """
import collections, gc, json, os, pathlib, signal, sys
path = sys.argv.pop(1)
def count(*_):
    gc.collect()
    found = collections.Counter(type(one).__name__ for one in gc.get_objects())
    recent = [one for one in gc.get_objects() if type(one).__name__ == "RecentMessages"]
    lines = sum(len(one.topics) for one in recent)
    new = pathlib.Path(path + ".new")
    new.write_text(json.dumps(found | {"lines": lines}))
    new.rename(path)
signal.signal(signal.SIGUSR2, count)
gc.freeze = lambda: None  # or the first objects could not be counted
from distributary.ingest.cli.main import main
main()
"""


class Counted(Gateway):
    """A gateway that says how many objects of each type it has when it is asked by a signal."""

    def __init__(self, folder: Path, settings: dict[str, dict[str, object]] | None = None) -> None:
        self.path = folder / "counts.json"
        self.COMMAND = (sys.executable, "-c", PROGRAM, str(self.path))
        super().__init__(folder, settings)

    def counts(self) -> dict[str, int]:
        import signal  # noqa: PLC0415

        assert self.process is not None
        self.path.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR2)
        until(self.path.exists, "the gateway has counted")
        counts: dict[str, int] = json.loads(self.path.read_text())
        return counts


def test_nothing_is_left_of_five_thousand(tmp_path: Path, connect: Connect) -> None:
    """Made, used and deleted in every way: no object of theirs remains, nor their messages in
    memory, and the memory is where it was."""
    kinds = (
        "_Node",
        "Subscription",
        "Dispatcher",
        "Consumer",
        "Producer",
        "Link",
        "lines",
        "_TopicBatches",
    )

    def live(number: int) -> None:
        peer = connect(port=gateway.port)
        for n in range(number // 4):
            for kind in KINDS:
                made, address = maker(peer, kind)
                consumer = of(peer, address)
                made.publish("x" * 100)
                assert len(consumer.take()) == 1
                if n % 2:
                    peer.leave(consumer, closed=True)
                    made.send(encoded("for nobody any more"))
                    peer.leave(made, closed=False)
                else:
                    peer.leave(made, closed=True)
                    assert ended(consumer) == "amqp:resource-deleted"
                    peer.leave(consumer, closed=True)
            replies, address = requester(peer)
            relay.publish_data([encoded("y", address=address, durable=False)])
            assert len(replies.take()) == 1
            peer.leave(replies, closed=True)
            maker(peer)
            if n % 50 == 49:
                peer.close() if n % 100 == 99 else peer.drop()
                peer = connect(port=gateway.port)
        peer.close()

    with Counted(tmp_path) as gateway:
        relay = connect(port=gateway.port).sender(None)
        live(1_000)
        before, counted = rss(gateway), gateway.counts()
        live(5_000)
        now = gateway.counts()
        assert {kind: now.get(kind, 0) for kind in kinds} == {
            kind: counted.get(kind, 0) for kind in kinds
        }
        assert rss(gateway) < before + 5_000 * 2_000
