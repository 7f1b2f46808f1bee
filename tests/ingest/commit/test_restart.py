"""Accepted messages and settlements outlive the process, in whatever way it ends."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from gateway_links import Incoming
from gateway_peer import Connect
from gateway_process import Gateway, until
from proton import Delivery
from pyroaring import BitMap64

from distributary.pipeline.tables.recovery.snapshot import CURSOR_COLUMNS

Make = Callable[..., Gateway]
ENDS = ["stopped", "killed"]


def ended(gateway: Gateway, end: str) -> None:
    """End it that way, and start it again."""
    if end == "stopped":
        gateway.stop()
    else:
        gateway.kill()
    gateway.start()


def everything(incoming: Incoming) -> list[object]:
    """The bodies of all that the subscription has for this link, accepted."""
    bodies: list[object] = []
    while incoming.drain(10_000):  # a link holds `amqp.unsettled_max` unsettled at most
        got, incoming.inbox = incoming.inbox, []
        incoming.confirm(got)
        bodies += [one.body for one in got]
    return bodies


@pytest.mark.parametrize("end", ENDS)
def test_durable_subscriptions_their_positions_and_exceptions_outlive_it(
    own_gateway: Make, connect: Connect, end: str
) -> None:
    """Exclusive and shared, of a container and global: each goes on exactly where it was; volatile
    ones and private ones are gone; sequences go on, so new messages come after the old ones."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        exclusive = peer.durable("t", "exclusive")
        scoped = peer.shared_durable("t", "scoped")
        worldwide = peer.shared_durable("t", "worldwide|global")
        untouched = peer.durable("t", "untouched")
        volatile = peer.shared("t", "volatile|global-volatile1")
        peer.sender("t").publish(*range(20))
        exclusive.confirm(exclusive.take(7))
        taken = scoped.take(20)
        scoped.confirm([taken[n] for n in (0, 3, 4, 9, 19)])
        released = worldwide.take(20)
        worldwide.confirm(released[5:], Delivery.ACCEPTED)
        worldwide.confirm(released[:5], Delivery.RELEASED)
        volatile.take(1)
        peer.drop()
        ended(gateway, end)

        peer = connect("c", port=gateway.port)
        peer.sender("t").publish("new")
        wanted = {
            "exclusive": [*range(7, 20), "new"],
            "untouched": [*range(20), "new"],
        }
        for name, bodies in wanted.items():
            assert everything(peer.durable("t", name)) == bodies, name
        rest = [n for n in range(20) if n not in (0, 3, 4, 9, 19)]
        assert everything(peer.shared_durable("t", "scoped")) == [*rest, "new"]
        assert everything(peer.shared_durable("t", "worldwide|global")) == [*range(5), "new"]
        assert everything(peer.shared("t", "volatile|global-volatile1")) == []
        assert untouched.received == 0


@pytest.mark.parametrize("end", ENDS)
def test_a_deleted_subscription_stays_deleted(
    own_gateway: Make, connect: Connect, end: str
) -> None:
    """So does a redefinition, and one made again begins anew."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        sender = peer.sender("t")
        peer.leave(peer.durable("t", "gone"), closed=False)
        peer.leave(peer.durable("t", "anew"), closed=False)
        peer.leave(peer.durable("t", "moved"), closed=False)
        sender.publish("old")
        assert peer.unsubscribe("gone") == ""
        assert peer.unsubscribe("anew") == ""
        peer.leave(peer.durable("t", "anew"), closed=False)
        peer.leave(peer.durable("t2", "moved"), closed=False)
        sender.publish("newer")
        peer.drop()
        ended(gateway, end)
        peer = connect("c", port=gateway.port)
        assert peer.unsubscribe("gone") == "amqp:not-found"
        assert everything(peer.durable("t", "anew")) == ["newer"]
        assert everything(peer.durable("t2", "moved")) == []


def test_restarts_in_a_row_change_nothing(own_gateway: Make, connect: Connect) -> None:
    """Stopped or killed, with or without something done in between."""
    with own_gateway() as gateway:
        kept: list[int] = []
        for turn in range(4):
            peer = connect("c", port=gateway.port)
            receiver = peer.durable("t", "mine")
            peer.sender("t").publish(turn, turn + 100)
            kept += [turn, turn + 100]
            receiver.confirm(receiver.take())
            kept.pop(0)
            peer.drop()
            ended(gateway, ENDS[turn % 2])
        assert everything(connect("c", port=gateway.port).durable("t", "mine")) == kept


def test_accepted_means_kept_whatever_comes_the_moment_after(
    own_gateway: Make, connect: Connect
) -> None:
    """SIGKILL right behind the accept, before any commit of the table: all of it is there."""
    with own_gateway({"commit": {"interval_ms": 3_600_000}}) as gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t", "mine"), closed=False)
        sender = peer.sender("t")
        for n in range(3):
            sender.publish(*range(100 * n, 100 * n + 100))
            gateway.kill()
            gateway.start()
            peer = connect("c", port=gateway.port)
            sender = peer.sender("t")
        assert not gateway.events("batch.committed")
        assert everything(peer.durable("t", "mine")) == list(range(300))


def test_sigterm_says_goodbye_and_commits(own_gateway: Make, connect: Connect) -> None:
    """Peers hear that it was forced; the exit code is 0; the next start has nothing to replay."""
    with own_gateway({"commit": {"interval_ms": 3_600_000}}) as gateway:
        peers = [connect(port=gateway.port) for _ in range(3)]
        holder = peers[0].durable("t", "mine")
        peers[1].sender("t").publish(*range(10))
        holder.take(3)
        process = gateway.process
        assert process is not None
        process.terminate()
        for peer in peers:
            peer.until(lambda peer=peer: peer.connection.remote_condition, "a condition")
            assert peer.connection.remote_condition.name == "amqp:connection:forced"
            peer.connection.close()
            peer.write()
        gateway.ended(0)
        gateway.start()
        assert not gateway.events("journal.replayed")
        peer = connect(holder.peer.container, port=gateway.port)
        assert everything(peer.durable("t", "mine")) == list(range(10))


def test_sigterm_does_not_wait_for_the_deaf(own_gateway: Make, connect: Connect) -> None:
    """A peer that never answers the close holds the end up for a moment only."""
    with own_gateway() as gateway:
        connect(port=gateway.port).receiver("t")
        gateway.stop()


def write_cursors(home: Path, subscription: str, floor: int, settled: tuple[int, ...]) -> None:
    """The table as Spark leaves it after folding the whole log: one subscription of topic t."""
    log = DeltaTable(home / "tables/topic_log")
    row = {
        "subscription": [subscription],
        "topic": ["t"],
        "shared": [False],
        "selector": pa.array([None], pa.string()),
        "floor": [floor],
        "settled": [BitMap64(settled).serialize()],
        "lost": [BitMap64().serialize()],
        "failures": pa.array([[]], CURSOR_COLUMNS["failures"]),
        "group": [log.transaction_version("journal")],
        "log_version": [log.version()],
    }
    write_deltalake(home / "tables/cursors", pa.table(row))


def test_cursors_and_the_whole_log_say_the_same(own_gateway: Make, connect: Connect) -> None:
    """A gateway that starts from a table `cursors` goes on as one that reads the whole log."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        sender = peer.sender("t")
        sender.publish(*range(30))
        taken = receiver.take(30)
        receiver.confirm([taken[n] for n in (0, 1, 2, 7, 8, 20)])
        peer.drop()
        gateway.stop()
        write_cursors(gateway.home, "container/c/mine", floor=3, settled=(7, 8, 20))
        gateway.start()
        assert str(gateway.events("store.opened")[-1]["source"]).startswith("cursors and the log")
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        first = receiver.take(4)
        assert [got.body for got in first] == [3, 4, 5, 6]
        receiver.confirm(first[:1])
        peer.drop()
        gateway.stop()
        gateway.start()
        rest = [n for n in range(4, 30) if n not in (7, 8, 20)]
        assert everything(connect("c", port=gateway.port).durable("t", "mine")) == rest


def test_a_start_after_a_kill_replays_the_journal(own_gateway: Make, connect: Connect) -> None:
    """And says so: the events of a recovery are in the log."""
    with own_gateway({"commit": {"interval_ms": 3_600_000}}) as gateway:
        connect(port=gateway.port).sender("t").publish(*range(10))
        gateway.kill()
        gateway.start()
        assert gateway.await_event("journal.replayed")["groups"]
        until(lambda: gateway.running, "still there")
