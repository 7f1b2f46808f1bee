"""A gateway whose tables lie on an object store, its journal in the home."""

from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from gateway_peer import Connect
from gateway_process import Gateway, until
from s3_server import served

URL = "s3://lake/tables"


def test_all_goes_on_with_tables_far_away(
    own_gateway: Callable[..., Gateway],
    connect: Connect,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages are accepted, committed, paged from there to a late consumer, and known after a
    kill."""
    settings = {
        "tables": {"url": URL},
        "commit": {"interval_ms": 100},
        "delivery": {"cache_bytes": 5_000, "page_bytes": 4_096},
    }
    with served() as options:
        for name, value in options.items():
            monkeypatch.setenv(name, value)
        gateway = own_gateway(settings).start()
        peer = connect(topic, port=gateway.port)
        peer.leave(peer.durable(topic, "mine"), closed=False)
        sender = connect(port=gateway.port).sender(topic)
        for n in range(0, 300, 10):
            sender.publish(*(f"{m} {'x' * 100}" for m in range(n, n + 10)))

        def committed() -> bool:
            table = DeltaTable(f"{URL}/topic_log", storage_options=options)
            return table.transaction_version("sequence") == 300

        until(committed, "all is in the table")
        consumer = peer.durable(topic, "mine")
        taken = consumer.take(200)
        assert [int(str(got.body).split()[0]) for got in taken] == list(range(200))
        consumer.confirm(taken)  # or the kill could come before it is durable
        gateway.kill()
        assert not (gateway.home / "tables").exists()
        gateway.start()
        got = connect(topic, port=gateway.port).durable(topic, "mine").bodies(100)
        assert {int(str(body).split()[0]) for body in got} >= set(range(200, 300))
