"""Outcomes for which no client waits linger for more; a client that waits for an answer isn't kept
waiting."""

from collections.abc import Callable

from deltalake import DeltaTable
from gateway_peer import Connect
from gateway_process import Gateway

from distributary.pipeline.tables.delta.table_state import JOURNAL_APP

Make = Callable[..., Gateway]
LONG = {"journal": {"settlement_linger_ms": 1_000}}
SETTLED = 20


def groups(gateway: Gateway) -> int:
    """How many groups a gateway that has stopped has written."""
    return DeltaTable(gateway.home / "tables" / "topic_log").transaction_version(JOURNAL_APP) or 0


def test_many_share_one_group(own_gateway: Make, connect: Connect) -> None:
    """Each would have a group of its own; the publisher who comes last has all of them written
    with its message, and what was settled stays settled, whatever ends the gateway then."""
    with own_gateway(LONG) as gateway:
        peer = connect("c", port=gateway.port)
        incoming, sender = peer.durable("t", "s"), peer.sender("t")
        sender.publish(*range(SETTLED))
        taken = incoming.take(SETTLED)
        gateway.stop()
        gateway.start()
        before = groups(gateway)

        peer = connect("c", port=gateway.port)
        incoming, sender = peer.durable("t", "s"), peer.sender("t")
        taken = incoming.take(SETTLED)
        for one in taken:
            incoming.settle([one])
            assert incoming.nothing()  # its answer says that the outcome was read
        sender.publish("last")
        gateway.kill()
        gateway.start()
        gateway.stop()
        assert groups(gateway) - before < SETTLED // 2
        gateway.start()
        assert connect("c", port=gateway.port).durable("t", "s").bodies(1) == ["last"]


def test_a_consumer_that_waits_is_answered(own_gateway: Make, connect: Connect) -> None:
    """A disposition that is left unsettled isn't kept back, nor what came before it."""
    with own_gateway(LONG) as gateway:
        peer = connect("c", port=gateway.port)
        incoming = peer.durable("t", "s")
        peer.sender("t").publish("a", "b", "c")
        first, second, _ = incoming.take(3)
        incoming.settle([first])
        incoming.confirm([second])
        gateway.kill()
        gateway.start()
        assert connect("c", port=gateway.port).durable("t", "s").bodies(1) == ["c"]
