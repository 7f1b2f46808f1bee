"""Behaviour at each limit: a peer waits or is refused, with which condition, and others go on.

The limits are tiny here. `docs/limits.md` has the whole list; limits of time and of connections
are tried in `test_operation.py`, those of the cache in `test_backlog.py`.
"""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from gateway_frames import (
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    OPEN,
    TRANSFER,
    Raw,
    accept_frame,
    begin_frame,
    begun,
    credit_frame,
    durable_source,
    frame,
    number,
    open_frame,
    receiver_frame,
    sender_frame,
    topic_target,
    transfer_frame,
)
from gateway_hostile import rss
from gateway_links import encoded
from gateway_peer import Connect
from gateway_process import Gateway, until
from proton import uint
from test_operations import fill, small_disk  # noqa: F401 (a fixture)

Make = Callable[..., Gateway]
MIB = 1 << 20
#: What a gateway with tiny limits that commits and serves has at most, on any machine.
LIVE_BYTES_MAX = 200 * MIB


def closed_with(raw: Raw) -> str:
    """The condition of the close with which the gateway ends this connection."""
    [close] = [one for one in raw.until_end() if one.code == CLOSE]
    return close.error


def test_a_message_may_be_as_large_as_the_limit(own_gateway: Make, connect: Connect) -> None:
    """`amqp.message_bytes_max`: one byte more and its link is refused; the connection goes on."""
    size = 10_000
    with own_gateway({"amqp": {"message_bytes_max": size}}) as gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.receiver("t")
        empty = len(encoded(b"x" * 300)) - 300
        data = encoded(b"x" * (size - empty))
        assert len(data) == size
        assert peer.sender("t").link.remote_max_message_size == size
        peer.sender("t").publish_data([data])
        assert receiver.take()[0].data == data
        guilty = peer.sender("t")
        guilty.send(data + b"x")
        assert peer.amqp_error(guilty) == "amqp:link:message-size-exceeded"
        peer.sender("t").publish("still here")
        assert receiver.bodies() == ["still here"]


def test_a_frame_may_be_as_large_as_the_limit(own_gateway: Make, connect: Connect) -> None:
    """`amqp.frame_bytes_max` is what the gateway's open says; a larger frame ends its connection,
    and no other one."""
    with own_gateway({"amqp": {"frame_bytes_max": 4_096}}) as gateway:
        witness = connect(port=gateway.port).sender("t")
        sender = sender_frame("s", topic_target("t"))
        with begun(gateway.port, "big", sender) as raw:
            assert number(raw.next(OPEN).field(2)) == 4_096
            raw.next(ATTACH)
            raw.send(transfer_frame(0, encoded(b"x" * 5_000)))
            assert closed_with(raw) == "amqp:connection:framing-error"
        witness.publish("still here")


def test_sessions_have_a_limit(own_gateway: Make, connect: Connect) -> None:
    """`amqp.channels_max` is what the gateway's open says, less one; a session beyond it ends its
    connection, and no other one."""
    with own_gateway({"amqp": {"channels_max": 2}}) as gateway:
        witness = connect(port=gateway.port).sender("t")
        with Raw(gateway.port, hello=AMQP_HEADER + open_frame("many")) as raw:
            assert number(raw.next(OPEN).field(3)) == 1
            for channel in range(3):
                raw.send(begin_frame()[:6] + channel.to_bytes(2, "big") + begin_frame()[8:])
            frames = raw.until_end()
            assert len([one for one in frames if one.code == BEGIN]) <= 2
            [close] = [one for one in frames if one.code == CLOSE]
            assert close.error == "amqp:connection:framing-error"
        witness.publish("still here")


def test_links_have_a_limit(own_gateway: Make, connect: Connect) -> None:
    """`amqp.links_max`: one more is refused, the others work; when one goes there is room. Other
    connections have limits of their own."""
    with own_gateway({"amqp": {"links_max": 3}}) as gateway:
        peer = connect("c", port=gateway.port)
        receivers = [peer.receiver("t") for _ in range(2)]
        sender = peer.sender("t")
        for _ in range(5):
            refused = peer.sender("t", opened=False)
            assert peer.amqp_error(refused) == "amqp:resource-limit-exceeded"
        peer.heard()
        sender.publish("one")
        assert [receiver.bodies() for receiver in receivers] == [["one"], ["one"]]
        connect(port=gateway.port).sender("t").publish("two")
        peer.leave(receivers.pop(), closed=True)
        peer.sender("t").publish("room again")
        assert receivers[0].bodies(2) == ["two", "room again"]


def test_refused_links_that_are_never_detached_end_the_connection(
    own_gateway: Make, connect: Connect
) -> None:
    """Else a peer could have as many of them as it likes."""
    with own_gateway({"amqp": {"links_max": 3}}) as gateway:
        attaches = [sender_frame(f"s{n}", topic_target("t"), n) for n in range(7)]
        with begun(gateway.port, "stubborn", *attaches) as raw:
            assert closed_with(raw) == "amqp:resource-limit-exceeded"
        connect("stubborn", port=gateway.port).sender("t").publish("still here")


def test_a_producer_may_send_as_much_as_it_has_credit(own_gateway: Make, connect: Connect) -> None:
    """`amqp.producer_credit` is what it has; it comes back with each accept. One that sends more
    is refused, and the connection goes on."""
    with own_gateway({"amqp": {"producer_credit": 5}}) as gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.receiver("t")
        sender = peer.sender("t")
        assert sender.link.credit == 5
        sender.publish(*range(12))
        peer.until(lambda: sender.link.credit == 5, "the credit is back")
        assert receiver.bodies(12) == list(range(12))
        witness = connect(port=gateway.port).sender("t")
        transfers = [transfer_frame(n, encoded(n)) for n in range(6)]
        with begun(gateway.port, "greedy", sender_frame("s", topic_target("t"))) as raw:
            raw.next(ATTACH)
            raw.send(*transfers)
            detach = raw.next(0x16)
            assert detach.error == "amqp:link:transfer-limit-exceeded"
        witness.publish("still here")


def test_a_consumer_may_hold_so_many_unsettled(own_gateway: Make, connect: Connect) -> None:
    """`amqp.unsettled_max`, whatever its credit; more come as it settles. Others of the same
    subscription get what it can't have."""
    with own_gateway({"amqp": {"unsettled_max": 10}}) as gateway:
        peer = connect("c", port=gateway.port)
        greedy = peer.shared_durable("t", "crowd|global")
        greedy.link.flow(1_000)
        connect(port=gateway.port).sender("t").publish(*range(30))
        held = greedy.take(10, credit=False)
        peer.heard()
        assert not greedy.inbox
        other = connect(port=gateway.port).shared_durable("t", "crowd|global")
        assert other.bodies(10) == list(range(10, 20))
        greedy.settle(held[:4])
        assert [got.body for got in greedy.take(4, credit=False)] == list(range(20, 24))
        peer.heard()
        assert not greedy.inbox


def test_a_connection_may_hold_so_many_unsettled(own_gateway: Make, connect: Connect) -> None:
    """`amqp.connection_unsettled_max`, on however many links; more come when it has settled a
    quarter. Others of the same subscription get what it can't have."""
    limits = {"unsettled_max": 10, "connection_unsettled_max": 20}
    with own_gateway({"amqp": limits}) as gateway:
        peer, sender = connect("c", port=gateway.port), connect(port=gateway.port)
        crowds = [peer.shared_durable(topic, f"{topic}|global") for topic in "tuv"]
        for crowd in crowds:
            crowd.link.flow(1_000)
        peer.heard()
        for topic in "tuv":
            sender.sender(topic).publish(*range(30))
            peer.heard()
        held = [crowd.take(10, credit=False) for crowd in crowds[:2]]
        crowds[0].settle(held[0][:4])
        peer.heard()
        assert not any(crowd.inbox for crowd in crowds)
        other = connect(port=gateway.port).shared_durable("v", "v|global")
        assert other.bodies(10) == list(range(10))
        crowds[1].settle(held[1])
        assert [got.body for got in crowds[2].take(4, credit=False)] == list(range(10, 14))


def test_a_consumer_that_does_not_read_takes_bounded_memory(
    own_gateway: Make, connect: Connect
) -> None:
    """`amqp.write_buffer_bytes`: with credit for 400 MB it costs a few; another one is served."""
    size, count = 20_000, 20_000
    settings = {
        "amqp": {"write_buffer_bytes": 65_536},
        "delivery": {"cache_bytes": MIB},
        "commit": {"bytes": MIB},
        # What isn't committed is in memory as well, and a slow disk would leave all of it there.
        "journal": {"backlog_bytes_max": 32 * MIB},
    }
    with own_gateway(settings) as gateway:
        receiver = receiver_frame("r", durable_source("t"))
        with begun(gateway.port, "deaf", receiver, credit_frame(count)) as raw:
            raw.next(ATTACH)
            reader = connect(port=gateway.port).receiver("t")
            reader.link.flow(count)
            sender = connect(port=gateway.port).sender("t")
            for _ in range(count // 500):
                sender.publish_data([encoded(b"x" * size)] * 500)
                reader.settle(reader.take(500, credit=False))
            assert rss(gateway) < LIVE_BYTES_MAX + size * count // 2
            raw.next(TRANSFER)


def test_peers_that_stand_still_have_a_limit_together(own_gateway: Make, connect: Connect) -> None:
    """`amqp.unwritten_bytes_max`: of three deaf consumers there is room for two; the first one is
    dropped, its messages go to others, and a consumer that reads is served as ever."""
    room = 65_536 + MIB
    limits = {"write_buffer_bytes": 65_536, "unwritten_bytes_max": 2 * room}
    with own_gateway({"amqp": limits}) as gateway, ExitStack() as ends:
        sender, deaf = connect(port=gateway.port).sender("t"), []
        for name in ("first", "second", "third"):
            link = receiver_frame("r", durable_source("t"))
            raw = ends.enter_context(begun(gateway.port, name, link, credit_frame(10_000)))
            raw.next(ATTACH)
            deaf.append(raw)
            stalled = len(gateway.events("connection.failed"))
            sender.publish_data([encoded(b"x" * 20_000)] * 600)
        until(lambda: len(gateway.events("connection.failed")) > stalled, "the first is dropped")
        [failed] = gateway.events("connection.failed")
        assert failed["container"] == "first"
        assert "amqp.unwritten_bytes_max" in str(failed["reason"])
        reader = connect(port=gateway.port).receiver("t")
        sender.publish("x")
        assert reader.bodies() == ["x"]
        assert len(connect("first", port=gateway.port).durable("t", "r").take(500)) == 500


def test_a_consumer_may_leave_while_its_socket_is_full(own_gateway: Make, connect: Connect) -> None:
    """It is told of its outcome and its end; its socket takes the rest after it has left."""
    with own_gateway({"journal": {"linger_ms": 900}}) as gateway:
        with begun(gateway.port, "c", receiver_frame("r", durable_source("t"))) as raw:
            raw.next(ATTACH)
            connect(port=gateway.port).sender("t").publish(*["x" * 100_000] * 150)
            raw.send(credit_frame(150))
            raw.next(TRANSFER)
            raw.send(accept_frame(0, 0, settled=False), frame(DETACH, uint(0), False))
            raw.next(DETACH)
        heir = connect("c", port=gateway.port).durable("t", "r")
        assert len(heir.take(149)) == 149


def offered(port: int, total: int, size: int, seconds: float = 3.0) -> int:
    """How many bytes of messages a producer gets rid of within that time, if it doesn't wait for
    any accept."""
    message = encoded(b"x" * size)
    with begun(port, f"hasty-{os.urandom(4).hex()}", sender_frame("s", topic_target("t"))) as raw:
        raw.next(ATTACH)
        sent = 0
        raw.socket.settimeout(seconds)
        for n in range(total // size):
            try:
                raw.send(transfer_frame(n, message))
            except TimeoutError:
                break
            sent += size
        return sent


def test_what_waits_for_a_full_disk_is_bounded(
    own_gateway: Make,
    connect: Connect,
    small_disk: Path,  # noqa: F811
) -> None:
    """`journal.waiting_bytes_max`: a producer that brings more isn't read, even with credit; a
    consumer of earlier messages is served all the while."""
    settings = {
        "journal": {"segment_bytes": MIB, "retry_ms": 50, "waiting_bytes_max": MIB},
        "commit": {"interval_ms": 50, "retry_ms": 50},
    }
    gateway = own_gateway(settings)
    gateway.home = small_disk / "home"
    with gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t", "mine"), closed=False)
        peer.sender("t").publish(*range(100))
        receiver = peer.durable("t", "mine")
        assert len(receiver.take(50)) == 50
        ballast = fill(small_disk)
        connect(port=gateway.port).sender("t").send(encoded(os.urandom(2 * MIB)))
        before = rss(gateway)
        taken = offered(gateway.port, 100 * MIB, 100_000)
        assert taken < 30 * MIB, "the kernel's buffers hold some of it"
        assert rss(gateway) - before < 30 * MIB
        assert len(receiver.take(50)) == 50
        ballast.unlink()
        connect(port=gateway.port).sender("t").publish("room again")


def test_a_group_is_no_larger_than_a_commit(own_gateway: Make, connect: Connect) -> None:
    """`commit.bytes`: what many large messages bring at once is divided over groups, in order; a
    commit holds one message more at most. A subscription made in between has what comes after."""
    size = 400_000
    with own_gateway({"commit": {"bytes": MIB, "interval_ms": 50}}) as gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        senders = [connect(port=gateway.port).sender("t") for _ in range(6)]
        deliveries = []
        for n in range(4):
            for at, sender in enumerate(senders):
                data = encoded(f"{at} {n} {'x' * size}")
                deliveries.append((sender, sender.send(data)))
        for sender in senders:
            sender.peer.write()
        late = peer.durable("t", "late")
        peer.sender("t").publish("last")
        for sender, delivery in deliveries:
            sender.outcome(delivery)
        got = [str(body).split()[:2] for body in receiver.bodies(24 + 1)]
        for at in range(6):
            assert [n for who, *n in got if who == f"{at}"] == [[f"{n}"] for n in range(4)]
        while late.bodies() != ["last"]:
            pass
        until(lambda: sum(map(committed, gateway.events("batch.committed"))) > 24 * size, "commits")
        assert max(map(committed, gateway.events("batch.committed"))) < MIB + 2 * size


def committed(event: dict[str, object]) -> int:
    """The bytes of one commit."""
    return int(str(event["bytes"]))


def test_a_journal_that_is_not_committed_is_bounded(
    own_gateway: Make,
    connect: Connect,
    small_disk: Path,  # noqa: F811
) -> None:
    """`journal.backlog_bytes_max`: above it accepted messages give no credit back, and a producer
    that has some left isn't read once as much more has come as may wait. Consumers go on; when the
    table has room producers do too, and all that was accepted is there."""
    settings = {
        "journal": {
            "segment_bytes": 4 * MIB,
            "backlog_bytes_max": 4 * MIB,
            "waiting_bytes_max": MIB,
        },
        "commit": {"interval_ms": 50, "retry_ms": 100, "bytes": MIB},
        "amqp": {"message_bytes_max": 2 * MIB, "producer_credit": 400},
    }
    gateway = own_gateway(settings)
    tables = small_disk / "tables"
    tables.mkdir()
    gateway.home.mkdir(parents=True)
    (gateway.home / "tables").symlink_to(tables)
    with gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        sender = connect(port=gateway.port).sender("t")
        sender.publish("first")
        ballast = fill(small_disk)
        body = os.urandom(100_000).hex()
        patient = [sender.send(encoded(body)) for _ in range(25)]
        for delivery in patient:
            sender.outcome(delivery)
        gateway.await_event("commit.failed")
        sender.peer.heard()
        assert sender.link.credit < 400, "the backlog is over its limit: no more credit"
        taken = offered(gateway.port, 380 * 100_000, 100_000)
        assert taken < 30 * MIB, "the kernel's buffers hold some of it"
        assert journal_bytes(gateway) < 16 * MIB
        assert receiver.bodies() == ["first"]
        assert receiver.bodies(25) == [body] * 25
        ballast.unlink()
        sender.peer.until(lambda: sender.link.credit == 400, "credit")
        sender.publish("room again")


def test_a_producer_that_is_not_read_is_not_silent(
    own_gateway: Make,
    connect: Connect,
    small_disk: Path,  # noqa: F811
) -> None:
    """`amqp.idle_timeout_ms` is about silent peers, not about peers that aren't read because the
    journal is full."""
    settings = {
        "journal": {
            "segment_bytes": 4 * MIB,
            "backlog_bytes_max": 4 * MIB,
            "waiting_bytes_max": MIB,
        },
        "commit": {"interval_ms": 50, "retry_ms": 100, "bytes": MIB},
        "amqp": {
            "idle_timeout_ms": 3_000,
            "message_bytes_max": 2 * MIB,
            "producer_credit": 400,
        },
    }
    gateway = own_gateway(settings)
    tables = small_disk / "tables"
    tables.mkdir()
    gateway.home.mkdir(parents=True)
    (gateway.home / "tables").symlink_to(tables)
    with gateway:
        sender = connect(port=gateway.port).sender("t")
        connect("c", port=gateway.port).durable("t", "mine")
        sender.publish("first")
        ballast = fill(small_disk)
        body = encoded(os.urandom(100_000).hex())
        room = threading.Timer(9.0, ballast.unlink)  # the stimulus: silences later
        room.start()
        waiting = [sender.send(body) for _ in range(300)]
        sender.peer.until(lambda: all(one.settled for one in waiting), "outcomes")
        room.join()
        assert not gateway.events("connection.failed")


def journal_bytes(gateway: Gateway) -> int:
    return sum(path.stat().st_size for path in (gateway.home / "journal").glob("*.journal"))
