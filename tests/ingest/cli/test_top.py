"""`distributary top`: what is shown of two readings, and a look at a gateway that runs."""

import json
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from gateway_http import ShownGateway
from gateway_peer import Peer
from gateway_process import PATIENCE, SCRIPT, commands, free_port, interruptible
from prometheus_client.parser import text_string_to_metric_families

from distributary.ingest.cli.watching.metric_readings import Order, now, ordered, reading
from distributary.pipeline.errors import InvalidRequest

BEFORE = """
distributary_ready 1
distributary_published_messages_total{topic="t"} 100
distributary_published_messages_total{topic="u"} 50
distributary_deliveries_total{subscription="global/a"} 90
distributary_settled_messages_total{subscription="global/a",outcome="accepted"} 80
distributary_settled_messages_total{subscription="global/a",outcome="dead_lettered"} 3
distributary_misfit_messages_total{topic="t",outcome="rejected"} 5
distributary_misfit_messages_total{topic="u",outcome="rejected"} 1
distributary_accept_seconds_bucket{le="0.001"} 10
distributary_accept_seconds_bucket{le="0.01"} 10
distributary_accept_seconds_bucket{le="+Inf"} 10
"""
AFTER = """
distributary_ready 1
distributary_published_messages_total{topic="t"} 300
distributary_published_messages_total{topic="u"} 10
distributary_deliveries_total{subscription="global/a"} 190
distributary_settled_messages_total{subscription="global/a",outcome="accepted"} 180
distributary_settled_messages_total{subscription="global/a",outcome="dead_lettered"} 5
distributary_backlog_messages{subscription="global/a"} 7
distributary_backlog_messages{subscription="global/b"} 9
distributary_backlog_messages{subscription="global/c"} 1
distributary_backlog_oldest_age_seconds{subscription="global/c"} 400
distributary_consumers{subscription="global/a"} 2
distributary_consumers{subscription="global/c"} 1
distributary_journal_bytes 90
distributary_journal_bytes_max 100
distributary_head_sequence 310
distributary_committed_sequence 300
distributary_misfit_messages_total{topic="t",outcome="rejected"} 6
distributary_misfit_messages_total{topic="t",outcome="dead_lettered"} 2
distributary_misfit_messages_total{topic="u",outcome="rejected"} 1
distributary_schema_unchecked_messages_total 4
distributary_schema_check_failures_total 1
distributary_accept_seconds_bucket{le="0.001"} 60
distributary_accept_seconds_bucket{le="0.01"} 109
distributary_accept_seconds_bucket{le="+Inf"} 110
"""


def test_two_readings_are_rates() -> None:
    """A counter that fell began again; a quantile is the bound of its bucket."""
    found = now(reading(10.0, BEFORE), reading(12.0, AFTER))
    assert found.published == (200 + 10) / 2
    assert (found.deliveries, found.settled) == (50, 51)
    assert (found.accept_p50_ms, found.accept_p99_ms, found.write_p99_ms) == (1, 10, None)
    assert (found.head, found.uncommitted, found.journal) == (310, 10, 0.9)
    assert found.misfits == 3
    assert found.warnings == (
        "commits fall behind: the journal is nearly full, then publishers wait",
        "4 messages were rejected just now: too many wait for a schema's check",
        "checks by schemas fail: schemas.check_failed in the log says why",
        "t was sent 3 messages just now that its schema doesn't allow",
        "global/a gives messages up, 2 just now",
        "global/b has 9 messages and no consumer",
        "global/c has a message that is 400 s old",
    )


def test_names_are_read_as_prometheus_reads_them() -> None:
    """With any characters in names, prometheus-client's reader has the same samples."""
    text = (
        "# HELP distributary_ready 1 while the gateway serves\n"
        "distributary_ready 1.0\n"
        'distributary_backlog_messages{subscription="a\\"b,c=\\\\d\\n{e}"} 1e+06\n'
        'distributary_accept_seconds_bucket{le="+Inf",kind=""} +Inf\n'
    )
    theirs = {
        (one.name.removeprefix("distributary_"), frozenset(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    ours = reading(0.0, text).samples
    assert {(name, key): v for name, some in ours.items() for key, v in some.items()} == theirs
    assert ours["backlog_messages"] == {frozenset({("subscription", 'a"b,c=\\d\n{e}')}): 1e6}


def test_subscriptions_have_an_order() -> None:
    found = now(reading(10.0, BEFORE), reading(12.0, AFTER)).subscriptions
    names = {order: "".join(one.name[-1] for one in ordered(found, order)) for order in Order}
    assert names == {"backlog": "bac", "rate": "abc", "age": "cab", "name": "abc"}


@pytest.mark.parametrize("text", ["<html>", "go_goroutines 7\n", "distributary_ready"])
def test_what_is_no_gateway_is_one_sentence(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"metrics|format"):
        reading(0.0, text)


def test_a_gateway_in_numbers(tmp_path: Path) -> None:
    """Once, for people and for programs; without a gateway it says so and ends with 1."""
    with ShownGateway(tmp_path) as gateway:
        with Peer(gateway.port, "c") as peer:
            peer.durable("flights", "s")
            peer.sender("flights").publish(*range(5))
            place = ("--metrics", f"127.0.0.1:{gateway.http_port}")
            said = commands().run("top", *place, "--once")
            assert (said.returncode, said.stderr) == (0, "")
            assert "container/c/s" in said.stdout
            assert "serves" in said.stdout
            said = commands().run("top", *place, "--json", "--every", "0.2")
            found = json.loads(said.stdout)
            assert (found["head"], found["connections"]) == (5, 1)
            [one] = [s for s in found["subscriptions"] if s["name"] == "container/c/s"]
            assert (one["backlog"], one["consumers"]) == (5, 1)
        gateway.stop()
        said = commands().run("top", *place, "--once", "--every", "0.2")
        assert said.returncode == 1
        assert "no gateway answers" in said.stderr
        said = commands().run("top", "--metrics", "here", "--once")
        assert said.returncode == 2


def test_a_host_that_is_none_has_no_gateway() -> None:
    """One that isn't UTF-8, and one that is too long for a name."""
    for host in ("\udcff", "a" * 64):
        found = commands().run("top", "--metrics", f"{host}:1", "--once", timeout=PATIENCE)
        assert (found.returncode, found.stdout) == (1, "")
        assert found.stderr.startswith("distributary: no gateway answers at http://")


def test_the_screen_goes_on_over_a_restart(tmp_path: Path) -> None:
    """On a terminal it draws again and again, waits while no gateway answers, and ends with
    Ctrl-C."""
    gateway = ShownGateway(tmp_path)
    ours, its = pty.openpty()
    place = f"127.0.0.1:{gateway.http_port}"
    process = subprocess.Popen(
        [SCRIPT, "top", "--metrics", place, "--every", "0.2"],
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        preexec_fn=interruptible,  # noqa: PLW1509 (no threads here)
    )
    os.close(its)
    try:
        seen(ours, "waiting for")
        with gateway:
            seen(ours, "serves")
            gateway.kill()
            seen(ours, "waiting for")
            gateway.start()
            seen(ours, "serves")
        process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            drained(ours)
        assert process.poll() == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def drained(terminal: int) -> str:
    ready, _, _ = select.select([terminal], [], [], 0.2)
    try:
        return os.read(terminal, 65_536).decode(errors="replace") if ready else ""
    except OSError:  # the other end has gone
        return ""


def seen(terminal: int, text: str) -> None:
    """Read until this is on the screen."""
    found, deadline = "", time.monotonic() + 60
    while text not in found:
        assert time.monotonic() < deadline, f"{text!r} isn't in {found[-2_000:]!r}"
        found += drained(terminal)


def test_a_free_port_is_nobodys() -> None:
    said = commands().run(
        "top", "--metrics", f"127.0.0.1:{free_port()}", "--json", "--every", "0.2"
    )
    assert (said.returncode, said.stdout) == (1, "")


def test_each_picture_is_in_a_pipe_when_it_is_drawn(tmp_path: Path) -> None:
    """A reader that has seen enough ends it."""
    with ShownGateway(tmp_path) as gateway:
        process = subprocess.Popen(
            [SCRIPT, "top", "--metrics", f"127.0.0.1:{gateway.http_port}", "--every", "0.2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        pictures = 0
        for line in process.stdout:
            pictures += line.startswith("distributary ")
            if pictures == 2:
                break
        process.stdout.close()
        assert process.stderr.read() == ""
        process.stderr.close()
        assert process.wait(timeout=60) == 1


def test_an_output_without_room_is_one_sentence(tmp_path: Path) -> None:
    """Of tables that rich draws, and of lines."""
    for words in (("doctor", "--home", str(tmp_path / "home")), ("jobs", "--help")):
        with Path("/dev/full").open("w") as full:
            found = subprocess.run(
                [SCRIPT, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert found.returncode == 1
        assert found.stderr.startswith("distributary: can't write: No space left on device. See")
        assert found.stderr.count("\n") == 1
