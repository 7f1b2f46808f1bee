"""After a restart what may have been delivered is marked as such, and what can't have been is not.

Delivery counts are those of the header: JMS reads `redelivered` from any above 0.
"""

from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from gateway_links import Incoming, encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway, until
from proton import Delivery
from test_operations import foreign_commit

from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.recovery import dispatch_marks

Make = Callable[..., Gateway]


def failed(incoming: Incoming, number: int) -> None:
    """Take so many, say that they failed, and wait until that is durable."""
    taken = incoming.take(number)
    for got in taken:
        got.delivery.local.failed = True
    incoming.confirm(taken, Delivery.MODIFIED)


def counts(incoming: Incoming) -> dict[object, int]:
    """Everything that the subscription has for this link: body and delivery count."""
    incoming.drain(1_000)
    return {got.body: got.message.delivery_count for got in incoming.inbox}


def rows(gateway: Gateway) -> int:
    """How many the table has got, by the gateway's own log."""
    return sum(int(str(event["rows"])) for event in gateway.events("batch.committed"))


def expected(bodies: range, **changed: int) -> dict[object, int]:
    """All of the bodies with count 0, but for those named: `n3=1`."""
    return dict.fromkeys(bodies, 0) | {int(name[1:]): count for name, count in changed.items()}


def another_boot(gateway: Gateway) -> None:
    """The marks as a power cut leaves them: what was only stored is lost, and the boot is new."""
    path = Home(gateway.home).marks
    data = bytearray(path.read_bytes())
    magic, version, slots, boot = dispatch_marks.HEADER.unpack_from(data)
    header = dispatch_marks.HEADER.pack(magic, version, slots, bytes(reversed(boot)))
    data[: dispatch_marks.HEADER.size + 4] = dispatch_marks.checked(header)
    for end in range(dispatch_marks.SLOT_BYTES, len(data) + 1, dispatch_marks.SLOT_BYTES):
        data[end - 8 : end] = bytes(8)
    path.write_bytes(data)


def test_what_was_handed_out_before_a_kill_is_marked_and_nothing_else(
    own_gateway: Make, connect: Connect
) -> None:
    """Three of ten were delivered: they come with a count, the seven without. A settled message
    doesn't come, in any place; a subscription that had no consumer has no marks."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t", "untouched"), closed=False)
        names = ["three", "middle", "shared|global"]
        three, middle = (peer.durable("t", name) for name in names[:2])
        shared = peer.shared_durable("t", names[2])
        peer.sender("t").publish(*range(10))
        three.take(3)
        held = middle.take(5)
        middle.confirm([held[1], held[4]])
        shared.take(2)
        second = connect("d", port=gateway.port).shared_durable("t", names[2])
        second.take(2)
        gateway.kill()
        gateway.start()

        peer = connect("c", port=gateway.port)
        assert counts(peer.durable("t", "untouched")) == expected(range(10))
        assert counts(peer.durable("t", "three")) == expected(range(10), n0=1, n1=1, n2=1)
        rest = expected(range(10), n0=1, n2=1, n3=1)
        del rest[1], rest[4]
        assert counts(peer.durable("t", "middle")) == rest
        marked = expected(range(10), n0=1, n1=1, n2=1, n3=1)
        assert counts(peer.shared_durable("t", names[2])) == marked


def test_what_came_back_before_a_kill_is_not_in_doubt(own_gateway: Make, connect: Connect) -> None:
    """A consumer that went has given back what it held, and that is in the log."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        sender = peer.sender("t")
        sender.publish(*range(5))
        receiver.take(3)
        peer.leave(receiver, closed=False)
        sender.publish(5)  # accepted behind what was given back
        gateway.kill()
        gateway.start()
        peer = connect("c", port=gateway.port)
        assert counts(peer.durable("t", "mine")) == expected(range(6))


def test_an_orderly_stop_marks_what_consumers_held(own_gateway: Make, connect: Connect) -> None:
    """It ends their connections with an error: they may have seen that, and nothing else is marked.
    Failed attempts of before still count."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        peer.sender("t").publish(*range(6))
        failed(receiver, 2)
        receiver.take(4)
        gateway.stop()
        gateway.start()
        assert gateway.events("store.opened")[-1]["doubtful"] == 0
        peer = connect("c", port=gateway.port)
        assert counts(peer.durable("t", "mine")) == expected(range(6), n0=2, n1=2, n2=1, n3=1)


def test_a_gateway_that_gives_up_leaves_its_marks(own_gateway: Make, connect: Connect) -> None:
    """The journal still takes what consumers give back, but to them it was a crash."""
    small = {"delivery": {"cache_bytes": 1_000}, "commit": {"interval_ms": 50}}
    with own_gateway(small) as gateway:
        peer = connect("c", port=gateway.port)
        three = peer.durable("t", "three")
        peer.sender("t").publish(*range(100))
        three.take(3)
        until(lambda: rows(gateway) >= 100, "the table has them")
        foreign_commit(gateway.home)
        peer.sender("other").send(encoded("what makes the next commit"))
        peer.turn(0.1)
        gateway.ended(1)
        DeltaTable(Home(gateway.home).topic_log).delete("topic = 'foreign'")
        gateway.start()
        left = counts(connect("c", port=gateway.port).durable("t", "three"))
        assert left == expected(range(100), n0=1, n1=1, n2=1)


def test_failed_attempts_outlive_every_end(own_gateway: Make, connect: Connect) -> None:
    """Attempts in the log count as before, and a delivery that a kill cut off counts once more."""
    with own_gateway({"commit": {"interval_ms": 100}}) as gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        peer.sender("t").publish(*range(6))
        failed(receiver, 3)
        failed(receiver, 1)
        gateway.kill()
        gateway.start()
        # 0 failed twice, 1 and 2 once; after that 0 to 2 were given back, which is all they knew.
        receiver = connect("c", port=gateway.port).durable("t", "mine")
        assert [got.message.delivery_count for got in receiver.take(2)] == [3, 2]
        gateway.kill()
        gateway.start()
        receiver = connect("c", port=gateway.port).durable("t", "mine")
        failed(receiver, 1)
        gateway.stop()
        gateway.start()
        peer = connect("c", port=gateway.port)
        assert counts(peer.durable("t", "mine")) == expected(range(6), n0=4, n1=2, n2=2)


@pytest.mark.parametrize("lost", ["power", "marks"])
def test_after_a_power_cut_all_that_a_consumer_may_have_had_is_marked(
    own_gateway: Make, connect: Connect, lost: str
) -> None:
    """The stores are gone, but the file says which subscription had a consumer; without the file
    that is unknown."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t", "untouched"), closed=False)
        receiver = peer.durable("t", "mine")
        peer.sender("t").publish(*range(4))
        receiver.confirm(receiver.take(1))
        receiver.take(1)
        gateway.kill()
        if lost == "power":
            another_boot(gateway)
        else:
            Home(gateway.home).marks.unlink()
        gateway.start()
        peer = connect("c", port=gateway.port)
        untouched = 0 if lost == "power" else 1
        assert counts(peer.durable("t", "untouched")) == dict.fromkeys(range(4), untouched)
        assert counts(peer.durable("t", "mine")) == dict.fromkeys(range(1, 4), 1)
        peer.sender("t").publish("new")
        assert counts(connect_again(peer, gateway, connect).durable("t", "untouched"))["new"] == 0


def connect_again(peer: Peer, gateway: Gateway, connect: Connect) -> Peer:
    """The same container anew; what its links held is given back."""
    name = peer.container
    peer.drop()
    return connect(name, port=gateway.port)


def test_marks_of_many_subscriptions_outlive_the_growth_of_their_file(
    own_gateway: Make, connect: Connect
) -> None:
    """More than a new file has room for, each with one delivery."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        names = [f"s{n}" for n in range(dispatch_marks.SLOTS_MIN + 20)]
        receivers = [peer.durable("t", name) for name in names]
        peer.sender("t").publish("x", "y")
        for receiver in receivers:
            receiver.take(1)
        gateway.kill()
        gateway.start()
        peer = connect("c", port=gateway.port)
        for name in (names[0], names[-1]):
            assert counts(peer.durable("t", name)) == {"x": 1, "y": 0}
