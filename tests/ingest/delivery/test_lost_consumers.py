"""A lost consumer's messages come again marked as redelivered, and none is given up for that;
messages of a consumer that ends its link, session or connection by itself come unmarked.

Delivery counts are those of the header: JMS reads `redelivered` from any above 0.
"""

from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from gateway_links import Incoming
from gateway_peer import Connect, Peer, in_use
from gateway_process import Gateway, until
from proton import Condition, Delivery, Endpoint

Make = Callable[..., Gateway]

LOST = ("socket", "connection error", "session error", "link error", "silence")
WELL = ("detach", "close of the link", "end", "close")
NAME = "work|global"
#: Milliseconds of silence after which a peer is dropped.
IDLE_MS = 4_000


def marks(incoming: Incoming, number: int) -> list[tuple[object, int]]:
    """The next messages: body and delivery count."""
    return [(got.body, got.message.delivery_count) for got in incoming.take(number)]


def ended(peer: Peer, holder: Incoming, how: str) -> None:
    """End the link of a consumer so, and wait for the answer if there is one."""
    error = Condition("amqp:internal-error", "it goes wrong")
    session, connection = holder.link.session, peer.connection
    match how:
        case "socket":
            peer.drop()
        case "silence":
            pass  # the gateway drops it
        case "connection error":
            connection.condition = error
            connection.close()
            peer.until(lambda: connection.state & Endpoint.REMOTE_CLOSED, "a close")
        case "session error" | "end":
            if how == "session error":
                session.condition = error
            session.close()
            peer.until(lambda: session.state & Endpoint.REMOTE_CLOSED, "an end")
        case "link error":
            holder.link.condition = error
            peer.leave(holder, closed=True)  # refused, as there is another consumer
        case "detach" | "close of the link":
            peer.leave(holder, closed=how != "detach")
        case "close":
            peer.close()


@pytest.mark.parametrize("how", LOST)
def test_what_a_lost_consumer_had_comes_marked(
    own_gateway: Make, connect: Connect, topic: str, how: str
) -> None:
    """Its unsettled messages come marked, however it was lost; others come as new."""
    settings = {"amqp": {"idle_timeout_ms": IDLE_MS}} if how == "silence" else None
    with own_gateway(settings) as gateway:
        peer, another = connect(port=gateway.port), connect(port=gateway.port)
        holder = peer.shared_durable(topic, NAME)
        keeper = another.shared_durable(topic, NAME) if how == "link error" else None
        connect(port=gateway.port).sender(topic).publish(*range(6))
        taken = holder.take(4)
        holder.confirm(taken[1:2])
        ended(peer, holder, how)
        other = keeper or connect(port=gateway.port).shared_durable(topic, NAME)
        came = sorted(marks(other, 5))
        assert came == [(0, 1), (2, 1), (3, 1), (4, 0), (5, 0)]


@pytest.mark.parametrize("how", WELL)
def test_what_is_left_at_a_clean_end_comes_unmarked(connect: Connect, topic: str, how: str) -> None:
    """A consumer that ends well has settled before what its application saw: the rest is
    prefetch."""
    peer, other = connect(), connect()
    holder, keeper = peer.shared_durable(topic, NAME), other.shared_durable(topic, NAME)
    other.sender(topic).publish(*range(4))
    holder.take(4)
    ended(peer, holder, how)
    assert marks(keeper, 4) == [(n, 0) for n in range(4)]


def test_a_consumer_whose_network_is_dead_is_lost_though_bytes_wait_for_it(
    own_gateway: Make, connect: Connect, topic: str
) -> None:
    """Its socket stays full for minutes then. Fewer bytes wait than would pause its deliveries."""
    settings = {
        "amqp": {
            "idle_timeout_ms": IDLE_MS,
            "write_buffer_bytes": 64 << 20,
            "unwritten_bytes_max": 256 << 20,
        }
    }
    with own_gateway(settings) as gateway:
        connect("c", port=gateway.port).durable(topic, "mine").peer.drop()
        sender = connect(port=gateway.port).sender(topic)
        for _ in range(40):
            sender.publish(b"x" * (1 << 19))
        peer = connect("c", port=gateway.port)
        peer.durable(topic, "mine").link.flow(1_000)
        peer.write()  # and it says and reads nothing more
        until(lambda: not in_use(gateway.port, peer.container, topic, "mine"), "it is lost")


def test_a_loss_gives_nothing_up(own_gateway: Make, connect: Connect) -> None:
    """Twelve losses, where three failures are too many: the mark stays at one, and the failures
    that consumers say count beside it, over a kill and a stop."""
    with own_gateway({"subscription": {"delivery_attempts_max": 3}}) as gateway:
        for nth in range(12):
            peer = connect("c", port=gateway.port)
            receiver = peer.durable("t", "mine")
            if not nth:
                connect(port=gateway.port).sender("t").publish("x", "y")
            [got] = receiver.take(1)
            assert got.message.delivery_count == min(nth, 1)
            if nth == 6:
                gateway.stop()
                gateway.start()
            else:
                peer.drop()
        for failures in range(3):
            receiver = connect("c", port=gateway.port).durable("t", "mine")
            [got] = receiver.take(1)
            assert (got.body, got.message.delivery_count) == ("x", 1 + failures)
            got.delivery.local.failed = True
            receiver.confirm([got], Delivery.MODIFIED)
            receiver.peer.drop()
        peer = connect("c", port=gateway.port)
        assert peer.durable("t", "mine").bodies() == ["y"]


def test_a_loss_is_in_the_log(own_gateway: Make, connect: Connect) -> None:
    """A row of its own has the lost consumer and its messages; a kill of the gateway right behind
    the loss loses no mark, nor does a start from the whole log."""
    with own_gateway({"commit": {"interval_ms": 50}}) as gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        connect(port=gateway.port).sender("t").publish(*range(4))
        receiver.take(3)
        peer.drop()
        other = connect("c", port=gateway.port)
        other.leave(other.durable("t", "mine"), closed=False)  # behind it in the log
        gateway.kill()
        gateway.start()
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        assert [one.message.delivery_count for one in receiver.take(4)] == [1, 1, 1, 0]
        gateway.stop()
        table = DeltaTable(gateway.home / "tables/topic_log").to_pyarrow_table(
            filters=[("record", "=", "settlement")],
            columns=["group", "consumer", "outcome", "final", "delivery_count", "sequences"],
        )
        lost = [row for row in table.to_pylist() if row["outcome"] == "lost"]
        first = min(lost, key=lambda row: row.pop("group"))
        assert first == {
            "consumer": "c/mine",
            "outcome": "lost",
            "final": False,
            "delivery_count": 0,
            "sequences": [0, 1, 2],
        }


def test_where_a_policy_says_so_a_loss_counts(own_gateway: Make, connect: Connect) -> None:
    """Then a message that takes its consumers down is given up, as any that fails."""
    policy = {"delivery_attempts_max": 2, "lost_consumer_counts": True}
    with own_gateway({"subscription": policy}) as gateway:
        publisher = connect(port=gateway.port)
        for nth in range(2):
            peer = connect("c", port=gateway.port)
            receiver = peer.durable("t", "mine")
            if not nth:
                publisher.sender("t").publish("poison", "good")
            [got] = receiver.take(1)
            assert (got.body, got.message.delivery_count) == ("poison", nth)
            peer.drop()
        assert connect("c", port=gateway.port).durable("t", "mine").bodies() == ["good"]
        queue = "queue://DLQ.container/c/mine"
        dead = publisher.receiver(queue, capabilities=("queue",))
        assert dead.bodies() == ["poison"]


@pytest.mark.parametrize("linger_ms", [0, 1_000])
def test_what_is_in_doubt_after_a_kill_comes_marked(
    own_gateway: Make, connect: Connect, linger_ms: int
) -> None:
    """Sent messages without an outcome in the log come marked: acknowledgements wait for no answer,
    and go in the next group. Messages with one come no more, and unsent ones aren't marked."""
    gateway = own_gateway({"journal": {"linger_ms": linger_ms}}).start()
    peer = connect(port=gateway.port)
    queue = peer.receiver("q", capabilities=("queue",))
    peer.sender("q", capabilities=("queue",)).publish(*range(9))
    for number in range(3):  # by credit one by one, each settled before the next one is sent
        assert queue.bodies(1) == [number]
    sent = queue.take(3)
    if not linger_ms:
        # This group comes after those that were settled, and its answer says that it is written.
        peer.sender("q", capabilities=("queue",)).publish(9)
    gateway.kill()
    gateway.start()
    heir = connect(port=gateway.port).receiver("q", capabilities=("queue",))
    assert [got.body for got in sent] == [3, 4, 5]
    doubt = [0, 1, 2, 3, 4, 5] if linger_ms else [3, 4, 5]
    behind = [6, 7, 8] if linger_ms else [6, 7, 8, 9]
    told = [*((body, 1) for body in doubt), *((body, 0) for body in behind)]
    assert marks(heir, len(told)) == told
