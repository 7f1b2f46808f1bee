"""The order of a real gateway's system calls: durable first, then said; then perhaps reused."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import order
import pytest
from gateway_links import encoded
from gateway_peer import Peer
from gateway_process import Gateway

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace isn't installed: the order can't be seen"
)


class Traced:
    """A gateway that has worked under strace: what it left, and what it was asked for."""

    def __init__(self, folder: Path) -> None:
        output = folder / "trace"
        gateway = Gateway(
            folder, {"journal": {"segment_bytes": 1 << 20}, "commit": {"interval_ms": 60}}
        )
        gateway.COMMAND = (*order.STRACE, str(output), *Gateway.COMMAND)
        with gateway:
            self._subscribe(gateway.port)
            self.published = self._publish(gateway.port)
            self._stop(gateway)
        self.lines = output.read_text().splitlines()
        self.home = gateway.home
        self.groups, self.added = order.commits_of(self.home)

    def _subscribe(self, port: int) -> None:
        """Subscriptions of every kind that is durable come, and one goes by each way to end it."""
        with Peer(port, "c") as peer:
            producer = peer.sender("made-by-producer", capabilities=("queue",))
            consumer = peer.receiver("made-by-consumer", capabilities=("queue",))
            peer.leave(peer.durable("u", "looked-up"), closed=False)
            peer.shared_durable("u", "shared|global")
            closed = peer.durable("u", "closed")
            peer.leave(closed, closed=True)
            assert peer.unsubscribe("looked-up") == ""
            peer.leave(producer, closed=True)
            peer.leave(consumer, closed=True)
            self.made_by = {
                producer.link.name: "queue/made-by-producer",
                consumer.link.name: "queue/made-by-consumer",
                "looked-up": "container/c/looked-up",
                "shared|global": "global/shared",
                "closed": "container/c/closed",
            }
            self.ended_by = {name: self.made_by[name] for name in ("looked-up", "closed")}

    @staticmethod
    def _publish(port: int) -> int:
        """One at a time, then in bursts that fill several segments."""
        with Peer(port) as peer:
            sender = peer.sender("t")
            for n in range(30):
                sender.publish(n)
            for _ in range(8):
                sender.publish_data([encoded("x" * 8_000)] * 60)
        return 30 + 8 * 60

    @staticmethod
    def _stop(gateway: Gateway) -> None:
        assert gateway.process is not None
        pid = gateway.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)
        gateway.ended(0)

    def gate(self, lines: list[str] | None = None) -> order.Gate:
        gate = order.Gate(self.home, self.groups, self.added, self.made_by, self.ended_by)
        return gate.go(order.read(self.lines if lines is None else lines))

    def without(self, pattern: str) -> list[str]:
        """The trace without the calls whose path matches, as if they hadn't been made."""
        kept, gone = [], set()
        for line in self.lines:
            thread = line.split(" ", 1)[0]
            if re.search(pattern, order.unescaped(line)):
                gone.add(thread)
            elif not (thread in gone and "resumed>" in line):
                kept.append(line)
                gone.discard(thread)
        assert len(kept) < len(self.lines), pattern
        return kept


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    return Traced(tmp_path_factory.mktemp("traced"))


def test_nothing_is_said_or_reused_before_it_is_durable(traced: Traced) -> None:
    """Every accept and every answer of a subscription behind the fdatasync of its frame, every
    commit behind the fsync of its files, every segment given back behind the fsync of the commit
    that holds its groups."""
    gate = traced.gate()
    assert not gate.wrong, "\n".join(gate.wrong[:5])
    assert gate.accepted == traced.published
    # Each is made by an attach and ended by a close; the one that is looked up attaches twice.
    assert gate.answered == len(traced.made_by) + len(traced.ended_by) + 1
    assert gate.commits >= 3
    assert gate.recycled >= 2


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        (r"fdatasync\(\d+<[^>]*\.journal>", "are durable"),
        (r"fdatasync\(\d+<[^>]*\.journal>", "queue/made-by-producer is created"),
        (r"fdatasync\(\d+<[^>]*\.journal>", "container/c/looked-up is deleted"),
        (r"fsync\(\d+<[^>]*/_delta_log>", "given back"),
        (r"fsync\(\d+<[^>]*\.parquet>", r"\.parquet isn't synced"),
        (r"fsync\(\d+<[^>]*/day=[^/>]*>", r"day=[-\d]* isn't synced"),
        (r"fsync\(\d+<[^>]*\.json\.tmp>", r"\.tmp isn't synced"),
    ],
)
def test_a_sync_that_is_missing_is_seen(traced: Traced, missing: str, says: str) -> None:
    """The gate can be shut: the same trace without those calls doesn't pass."""
    gate = traced.gate(traced.without(missing))
    assert any(re.search(says, wrong) for wrong in gate.wrong), gate.wrong[:5]


def test_an_accept_one_line_too_early_is_seen(traced: Traced) -> None:
    """A disposition that is moved in front of the fdatasync it waited for doesn't pass."""
    gate = traced.gate()
    lines = list(traced.lines)
    calls = order.read(lines)
    first = next(c for c in calls if c.name == "sendto" and any(map(order.accepted_in, c.texts)))
    sync = max(c.began for c in calls if c.name == "fdatasync" and c.ended < first.began)
    lines.insert(sync, lines.pop(first.began))
    assert not gate.wrong
    assert traced.gate(lines).wrong
