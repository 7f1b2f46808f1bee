"""Log lines that peers can cause are limited; lines of the gateway about itself are not."""

import ast
import os
import signal
import socket
import subprocess
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
import structlog
from fork_server import clean_environment, commands
from gateway_peer import Connect, Peer
from gateway_process import PATIENCE, SCRIPT, free_port, until
from test_operations import Make

from distributary.ingest.runtime.logs import (
    OF_PEERS,
    OF_SUBSCRIPTIONS,
    LineBudget,
    LogFile,
)

ROOT = Path(__file__).parents[3]
#: What no peer can cause, or not more often than the disk and the table let it.
OWN = {
    *("listening", "gateway.bug", "gateway.stopped", "owner.lost", "duplicates.remembered"),
    *(
        "owner.leaves",
        "standby.took_over",
        "standby.waiting",
        "standby.port_in_use",
        "store.opened",
    ),
    *("journal.full", "journal.has_space", "journal.replayed", "journal.cut", "journal.strays"),
    *("journal.left", "journal.undecided"),
    *("commit.failed", "batch.committed", "upkeep.done", "upkeep.failed", "backlogs.uncounted"),
    "transaction.given_up",
    *("messages.unreadable", "messages.readable", "connections.fewer", "lines.left_out"),
    *("service.unheard", "level.changed", "commit.builder_failed"),
    *("policies.kept", "policies.reloaded", "backlog.overflowed", "retention.dropped"),
    "messages.dead_lettered",
    *("security.open", "security.cleartext", "security.kept", "security.reloaded"),
    *("http.listening", "http.waits"),
    *("address.said", "address.unsaid", "relay.connected", "relay.lost"),
    "relay.waits",
    *("log.given", "log.moved", "log.moves", "move.asked", "move.failed", "member.unsaid"),
    *("traces.undelivered", "traces.delivered", "traces.exporter_ended"),
}


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def written(budget: LineBudget, kind: str, times: int) -> int:
    """How many of so many lines are written."""
    count = 0
    for _ in range(times):
        try:
            budget(None, "info", {"event": kind})
        except structlog.DropEvent:
            continue
        count += 1
    return count


@pytest.mark.parametrize("kind", ["connection.failed", "subscription.created"])
def test_a_kind_has_so_many_lines_in_a_window(kind: str) -> None:
    """Each kind by itself, and anew in each window; how many were left out is said once."""
    clock = Clock()
    budget = LineBudget(3, 10.0, clock)
    assert written(budget, kind, 1_000) == 3
    assert written(budget, "permission.refused", 2) == 2
    clock.now = 9.9
    assert written(budget, kind, 1) == 0
    assert budget.left_out() == {}, "the window isn't over"
    clock.now = 10.0
    assert written(budget, kind, 5) == 3
    assert budget.left_out() == {kind: 998}
    assert budget.left_out() == {}
    assert budget.left_out(all_of_it=True) == {kind: 2}


@pytest.mark.parametrize("kind", sorted(OWN))
def test_the_gateways_own_lines_are_always_written(kind: str) -> None:
    assert written(LineBudget(3, 10.0, Clock()), kind, 1_000) == 1_000


def test_every_line_is_one_of_peers_or_the_gateways_own() -> None:
    """A new kind of line is put into one of the two tables, and none of them has one too many."""
    found: set[str] = set()
    for path in (ROOT / "ingest").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_events."):
                [kind, *_] = node.args
                found.add(ast.unparse(kind).strip("'"))
    dynamic = {kind for kind in found if kind.removeprefix("f'").startswith(OF_SUBSCRIPTIONS)}
    assert found - dynamic == OWN | OF_PEERS


def test_a_thousand_refusals_are_a_few_lines(own_gateway: Make, connect: Connect) -> None:
    """A peer that is refused all the time fills no disk; the log says how many lines it lacks."""
    gateway = own_gateway({"log": {"lines_max": 1, "window_ms": 1_000}})
    gateway.start()
    connect("taken", port=gateway.port)
    refused = 0

    def refuse_and_sum() -> bool:
        """Another refusal, until two fell into one window, however slow the machine is."""
        nonlocal refused
        with pytest.raises(Exception, match=r"open|lost|in use"):
            connect("taken", port=gateway.port, sole=True).heard()
        refused += 1
        return bool(gateway.events("lines.left_out"))

    until(refuse_and_sum, "a sum")
    gateway.stop()
    lines = gateway.events("connection.failed")
    sums = [e for e in gateway.events("lines.left_out") if e["of"] == "connection.failed"]
    said = refused + 1  # the last one at the end, of the connection that was there
    assert len(lines) + sum(int(str(one["count"])) for one in sums) == said
    assert len(lines) < said


def test_a_log_that_is_rotated_goes_on_in_a_new_file(own_gateway: Make, connect: Connect) -> None:
    """Renaming is all: the next line makes a new file, and each line is in one of the two."""
    gateway = own_gateway()
    rotated = gateway.log_path.with_suffix(".1")
    config = gateway.config.read_text()
    gateway.config.write_text(config.replace("[log]", f'[log]\nfile = "{gateway.log_path}"'))
    gateway.start()
    connect("before", port=gateway.port).heard()
    gateway.log_path.rename(rotated)
    connect("after", port=gateway.port).heard()
    gateway.await_event("connection.opened")
    gateway.stop()
    assert [one["container"] for one in gateway.events("connection.opened")] == ["after"]
    assert '"container": "before"' in rotated.read_text()
    assert '"container": "after"' not in rotated.read_text()


def test_a_log_whose_disk_is_full_loses_lines_and_no_more() -> None:
    with closing(LogFile(Path("/dev/full"))) as full:
        assert full.write("a line") == 0


def test_a_log_that_can_not_be_written(own_gateway: Make, tmp_path: Path) -> None:
    """One sentence, and no gateway."""
    gateway = own_gateway({"log": {"file": str(tmp_path / "nowhere" / "log")}})
    done = commands().run("serve", "--home", gateway.home, "--config", gateway.config)
    assert done.returncode == 1
    assert done.stderr.startswith(f"distributary: the log {tmp_path}/nowhere/log can't be written")


def test_the_level_changes_while_it_runs(own_gateway: Make, connect: Connect) -> None:
    """SIGUSR1 turns debug off and on again."""
    gateway = own_gateway({})  # with --verbose
    gateway.start()
    assert gateway.process is not None
    for turns, level in enumerate(("info", "debug"), start=1):
        gateway.process.send_signal(signal.SIGUSR1)
        until(lambda turns=turns: len(gateway.events("level.changed")) == turns, "the signal")
        assert gateway.events("level.changed")[-1]["to"] == level
        connect(level, port=gateway.port).close()
    until(lambda: gateway.events("connection.opened"), "a line")
    gateway.stop()
    assert [one["container"] for one in gateway.events("connection.opened")] == ["debug"]


@pytest.mark.parametrize("output", ["full", "gone", "none"])
def test_a_gateway_whose_output_takes_no_line_serves(tmp_path: Path, output: str) -> None:
    """A full disk, a reader that has ended, and no standard output at all."""
    port = free_port()
    reader, writer = os.pipe()
    os.close(reader)
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(
            [SCRIPT, "serve", "--home", tmp_path / "home", "--listen", f"127.0.0.1:{port}"],
            stdout=writer if output == "gone" else full,
            stderr=subprocess.PIPE,
            env=clean_environment() | {"DISTRIBUTARY_HTTP_LISTEN": '""'},
            preexec_fn=partial(os.close, 1) if output == "none" else None,  # noqa: PLW1509 (no threads here)
            text=True,
        )
    os.close(writer)
    try:

        def serves() -> bool:
            assert process.poll() is None, "it has ended"
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return True
            return False

        until(serves, "it listens")
        with Peer(port, "c") as peer:
            peer.sender("flights").publish("x")
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE)[1] == ""
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
