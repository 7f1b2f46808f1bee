"""Messages that schemas don't allow, and those that wait to be checked, in metrics and `top`."""

import json
import os
import signal
from pathlib import Path

from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import commands
from gateway_schemas import checkers, schema, sent

from distributary.pipeline.log.message_counts import MessageCounts, Stalls
from distributary.pipeline.model.outcome import Outcome

GOOD, BAD = b'{"id": 1}', b"{}"


def test_misfits_are_counted_by_topic_and_what_became_of_them(tmp_path: Path) -> None:
    """On a link and by a route; what is redriven in vain was counted before. `top` says so."""
    policies = tmp_path / "policies.toml"
    policies.write_text('[[topic]]\nmatch = "other"\nroutes = "kept"\n')
    given = {"delivery": {"policies": str(policies)}}
    with ShownGateway(tmp_path, given) as gateway, Peer(gateway.port, "c") as peer:
        manager = Manager(peer)
        place = ("--metrics", f"127.0.0.1:{gateway.http_port}")
        manager.done("UPDATE", "schema", "refused", **schema(validate="refuse"))
        manager.done("UPDATE", "schema", "kept", **schema(validate="dead-letter"))
        sent(peer, "refused", GOOD, BAD, BAD)
        sent(peer, "kept", BAD, GOOD)
        sent(peer, "other", BAD, BAD, GOOD)
        manager.done("REDRIVE", "queue", "DLQ.topic/kept")
        name = "misfit_messages_total"
        assert gateway.metric(name, topic="refused", outcome="rejected") == 2
        assert gateway.metric(name, topic="kept", outcome="dead_lettered") == 3
        found = gateway.metrics()
        assert sum(value for (one, _), value in found.items() if one.endswith(name)) == 5
        assert found[("distributary_schema_check_seconds_count", ())] >= 3
        assert gateway.metric("schema_waiting_messages") == 0
        assert gateway.metric("schema_waiting_bytes") == 0
        said = json.loads(commands().run("top", *place, "--json", "--every", "0.2").stdout)
        assert (said["misfits"], "schema" in str(said["warnings"])) == (0, False)


def test_what_waits_and_what_fails_is_shown(tmp_path: Path) -> None:
    """While the process that checks stands still messages wait; what is too much is counted, and
    so is each check that had no answer."""
    given = {"schemas": {"waiting_bytes_max": 20_000, "check_ms_max": 8_000}}
    with ShownGateway(tmp_path, given) as gateway, Peer(gateway.port, "c") as peer:
        Manager(peer).done("UPDATE", "schema", "orders", **schema(validate="refuse"))
        sent(peer, "orders", GOOD)
        [pid] = checkers(gateway)
        os.kill(pid, signal.SIGSTOP)
        link = peer.sender("orders")
        peer.until(lambda: link.link.credit >= 2, "credit")
        first = link.send(encoded(b'{"id": 1, "note": "%s"}' % (b"x" * 7_000)))
        peer.write()
        gateway.await_metric(1, "schema_waiting_messages")
        assert 7_000 < gateway.metric("schema_waiting_bytes") < 8_000
        assert gateway.metric("schema_waiting_bytes_max") == 20_000
        second = link.send(encoded(b'{"id": 1, "note": "%s"}' % (b"x" * 15_000)))
        link.outcome(second)
        assert gateway.metric("schema_unchecked_messages_total") == 1
        link.outcome(first)
        assert gateway.metric("schema_check_failures_total") >= 1
        assert gateway.metric("schema_waiting_bytes") == 0
        assert gateway.metric("misfit_messages_total", topic="orders", outcome="rejected") == 0


def test_topics_of_misfits_are_bounded() -> None:
    """As those of what is published: many topics that a pattern's schema refuses share one sum."""
    counts = MessageCounts(2, Stalls())
    for nth in range(5):
        counts.misfit(f"sensors.{nth}", Outcome.REJECTED, 2)
    found = {topic: one.misfits for topic, one in counts.topics()}
    assert found["sensors.0"] == {Outcome.REJECTED: 2}
    assert found["(others)"] == {Outcome.REJECTED: 6}
    assert len(found) == 4
