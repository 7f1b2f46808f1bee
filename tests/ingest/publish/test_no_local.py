"""No-local: a subscription isn't owed what its own connection, or its own container, publishes."""

from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from fork_server import commands
from gateway_links import Incoming, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, no_local
from gateway_process import Gateway
from proton import Described

Make = Callable[..., Gateway]


def everything(incoming: Incoming) -> list[object]:
    """The bodies of all that the subscription has now, accepted."""
    incoming.drain(1_000)
    got, incoming.inbox = incoming.inbox, []
    incoming.confirm(got)
    return [one.body for one in got]


def test_a_consumer_does_not_hear_its_own_connection(connect: Connect, topic: str) -> None:
    """Messages of its own connection by any link stay away; it hears others', and others hear
    all."""
    mine, other = connect(), connect()
    deaf = mine.receiver(topic, filters=no_local())
    hears = mine.receiver(topic)
    mine.sender(topic).publish("mine")
    other.sender(topic).publish("other's")
    mine.sender(None).publish_data([encoded("mine, relayed", address=topic)])
    mine.sender(topic, presettled=True).send(encoded("mine, settled"), settled=True)
    mine.heard()
    mine.sender(topic).publish_data([encoded("mine, for now", durable=False)])
    other.sender(topic).publish("other's again")
    assert deaf.bodies(2) == ["other's", "other's again"]
    assert deaf.nothing()
    assert len(hears.take(6)) == 6


def test_interleaved_publishers_are_told_apart(connect: Connect, topic: str) -> None:
    """Messages of many groups and runs, in one order; what is left out leaves no hole."""
    mine, other = connect("mine" + topic), connect()
    deaf = mine.durable(topic, "deaf", filters=no_local())
    senders = [mine.sender(topic), other.sender(topic)]
    for n in range(0, 60, 3):
        senders[n % 2].publish(n, n + 1, n + 2)
    wanted = [n + k for n in range(0, 60, 3) if n % 2 for k in range(3)]
    assert deaf.bodies(len(wanted)) == wanted
    assert deaf.nothing()


@pytest.mark.parametrize("end", [None, "stopped", "killed"])
def test_a_durable_subscription_does_not_hear_its_container(
    own_gateway: Make, connect: Connect, end: str | None
) -> None:
    """Neither messages that the container published while there was no consumer, on another
    connection, or before the gateway ended; messages of others meanwhile are owed."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        deaf = peer.durable("t", "deaf", filters=no_local())
        peer.sender("t").publish("at once")
        peer.leave(deaf, closed=False)
        peer.sender("t").publish("while away")
        connect("other", port=gateway.port).sender("t").publish("other's")
        peer.close()
        connect("c", port=gateway.port).sender("t").publish("by another connection")
        if end is not None:
            gateway.stop() if end == "stopped" else gateway.kill()
            gateway.start()
        else:
            gateway.stop()
            gateway.start()
        connect("third", port=gateway.port).sender("t").publish("third's")
        peer = connect("c", port=gateway.port)
        peer.sender("t").publish("after the start")
        assert everything(peer.durable("t", "deaf", filters=no_local())) == ["other's", "third's"]


@pytest.mark.parametrize("begins", ["created", "redefined"])
def test_what_is_published_while_a_subscription_begins_is_left_out_too(
    own_gateway: Make, connect: Connect, begins: str
) -> None:
    """In the same group: a settlement in it would belong to what there was before it."""
    with own_gateway({"journal": {"linger_ms": 100}}) as gateway:
        peer = connect("c", port=gateway.port)
        if begins == "redefined":
            peer.leave(peer.durable("t", "deaf"), closed=False)
        sender, other = peer.sender("t"), connect(port=gateway.port).sender("t")
        deaf = peer.durable("t", "deaf", filters=no_local(), opened=False)
        delivery = sender.send(encoded("mine"))
        sender.outcome(delivery)
        peer.attached(deaf.link)
        other.publish("other's")
        peer.close()
        gateway.stop()
        gateway.start()
        peer = connect("c", port=gateway.port)
        assert everything(peer.durable("t", "deaf", filters=no_local())) == ["other's"]
        gateway.stop()
        assert commands().run("verify", "--home", gateway.home).returncode == 0


def test_no_local_is_part_of_what_a_subscription_is(connect: Connect, topic: str) -> None:
    """An attach without it begins the subscription anew if it has no consumer, and is refused
    otherwise; the answer, also to a lookup, shows the filter."""
    mine, other = connect(topic), connect()
    deaf = mine.durable(topic, "n", filters=no_local())
    assert filters_of(deaf) == ["NoLocalFilter{}"]
    session = mine.new_session()
    clash = mine.receiver(topic, "n", durable=True, opened=False, session=session)
    assert mine.amqp_error(clash) == "amqp:resource-locked"
    other.sender(topic).publish("owed")
    mine.leave(deaf, closed=False)
    lookup = mine.receiver(None, "n")
    assert filters_of(lookup) == ["NoLocalFilter{}"]
    mine.leave(lookup, closed=False)
    hears = mine.durable(topic, "n")
    assert filters_of(hears) == []
    mine.sender(topic).publish("mine")
    assert hears.bodies() == ["mine"]
    mine.leave(hears, closed=False)
    deaf = mine.durable(topic, "n", filters=no_local())
    mine.sender(topic).publish("mine again")
    assert deaf.nothing()


def filters_of(incoming: Incoming) -> list[object]:
    """The values of the filters in the answer."""
    data = incoming.link.remote_source.filter
    data.rewind()
    if not data.next():
        return []
    values = data.get_object().values()
    assert all(isinstance(one, Described) for one in values)
    return [one.value for one in values]


@pytest.mark.parametrize("durable", [True, False])
def test_a_shared_subscription_does_not_hear_its_container(
    connect: Connect, topic: str, durable: bool
) -> None:
    """Whichever of the container's connections publishes, and whichever consumes: those two share
    what others publish. A global subscription beside it hears all."""
    name = f"c{topic}"
    one, two, other = connect(name), connect(name), connect()
    deaf = [
        peer.receiver(
            topic, "n", durable=durable, capabilities=("topic", "shared"), filters=no_local()
        )
        for peer in (one, two)
    ]
    assert all(filters_of(link) == ["NoLocalFilter{}"] for link in deaf)
    hears = other.shared(topic, "n|global")
    for peer in (one, two):
        peer.sender(topic).publish("own", "own, too")
    other.sender(topic).publish(*range(4))
    assert deaf[0].bodies(2) + deaf[1].bodies(2) == [0, 1, 2, 3]
    assert len(hears.take(8)) == 8
    assert all(link.nothing() for link in deaf)


@pytest.mark.parametrize("what", ["shared", "shared durable", "global", "queue"])
def test_what_is_nobodys_own_can_not_be_no_local(connect: Connect, topic: str, what: str) -> None:
    """Several containers share it, so there is none whose messages it could leave out."""
    peer: Peer = connect()
    capabilities = {
        "shared": ("topic", "shared", "global"),
        "shared durable": ("topic", "shared", "global"),
        "global": ("topic", "global"),
        "queue": ("queue",),
    }[what]
    link = peer.receiver(
        topic,
        "n",
        durable=what in ("shared durable", "global"),
        capabilities=capabilities,
        filters=no_local(),
        opened=False,
    )
    assert peer.amqp_error(link) == "amqp:invalid-field"


def test_what_was_left_out_is_in_the_log(own_gateway: Make, connect: Connect) -> None:
    """As final, by the container that published it; the floor passes it, the home is sound."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        peer.durable("t", "deaf", filters=no_local())
        peer.sender("t").publish(*range(3))
        peer.close()
        gateway.stop()
        columns = ["record", "subscription", "outcome", "final", "consumer", "sequences", "floor"]
        table = DeltaTable(gateway.home / "tables/topic_log").to_pyarrow_table(columns=columns)
        rows = [row for row in table.to_pylist() if row["record"] == "settlement"]
        assert sorted(s for row in rows for s in row["sequences"]) == [0, 1, 2]
        for row in rows:
            assert (row["outcome"], row["final"], row["consumer"]) == ("local", True, "c")
            assert row["floor"] == row["sequences"][-1] + 1
        assert commands().run("verify", "--home", gateway.home).returncode == 0


def test_a_rewind_brings_back_nothing_of_its_own(own_gateway: Make, connect: Connect) -> None:
    """A no-local subscription that is rewound gets again what others published, also after a kill:
    what its own container published it was never owed."""
    gateway = own_gateway().start()
    peer, other = connect("mine", port=gateway.port), connect("other", port=gateway.port)
    consumer = peer.durable("t", "s", filters=no_local())
    own, foreign = peer.sender("t"), other.sender("t")
    for nth in range(4):
        own.publish(f"own {nth}")
        foreign.publish(f"other {nth}")
    consumer.confirm(consumer.take(4))
    manager = Manager(other)
    asked = manager.send("REWIND", "subscription", "container/mine/s", to=0)
    other.write()
    for nth in range(30):  # while the rewind goes on
        own.publish(f"own {nth}")
    assert manager.answer(asked).status == 200
    again = consumer.take(4)
    assert [got.body for got in again] == [f"other {nth}" for nth in range(4)]
    assert consumer.nothing()
    consumer.confirm(again[:1])
    gateway.kill()
    gateway.start()
    consumer = connect("mine", port=gateway.port).durable("t", "s", filters=no_local())
    assert consumer.bodies(3) == [f"other {nth}" for nth in range(1, 4)]
    assert consumer.nothing()
