"""A shared subscription that isn't durable gets its messages from memory, straight to the consumers
that have room."""

from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable
from gateway_http import ShownGateway
from gateway_peer import Connect
from gateway_process import Gateway

Make = Callable[..., Gateway]
#: Nothing becomes a row of the table while the test runs.
NO_COMMITS = {"commit": {"interval_ms": 600_000}}


def test_a_volatile_subscription_is_fed_without_the_table(
    own_gateway: Make, connect: Connect
) -> None:
    """In turns to those with credit, none to one without, while the table has no row of it; when
    the last consumer has gone nothing is kept."""
    gateway = own_gateway(NO_COMMITS).start()
    peer, other = connect(port=gateway.port), connect(port=gateway.port)
    few, many = peer.shared("t", "s|global"), other.shared("t", "s|global2")
    full = peer.shared("t", "s|global3")
    for link, credit in ((few, 3), (many, 100)):
        link.link.flow(credit)
        link.peer.heard()
    sender = peer.sender("t")
    for nth in range(20):
        sender.publish(nth)
    assert few.bodies(3) == [0, 2, 4]
    assert many.bodies(17) == [1, 3, *range(5, 20)]
    assert full.nothing()
    columns = DeltaTable(gateway.home / "tables/topic_log").to_pyarrow_table(columns=["record"])
    assert columns.num_rows == 0
    for link in (few, many, full):
        link.peer.leave(link, closed=True)
    sender.publish("for nobody")
    again = peer.shared("t", "s|global")
    sender.publish("new")
    assert again.bodies() == ["new"]


def test_what_nobody_is_owed_any_more_leaves_memory(tmp_path: Path, connect: Connect) -> None:
    """It leaves with the next commit, far below the limit; not while a consumer has a message
    without an outcome."""
    with ShownGateway(tmp_path, {"commit": {"interval_ms": 50}}) as gateway:
        peer = connect(port=gateway.port)
        first, second = peer.durable("t", "first"), peer.durable("t", "second")
        peer.sender("t").publish(*range(20))
        first.confirm(first.take(20))
        taken = second.take(20)
        second.confirm(taken[1:])
        gateway.await_metric(gateway.metric("head_sequence"), "committed_sequence")
        assert gateway.metric("cache_bytes") > 0
        second.confirm(taken[:1])
        gateway.await_metric(0, "cache_bytes")
