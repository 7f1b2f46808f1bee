"""With `upkeep.retention_seconds = 0` the table has the owed messages, and little else."""

from collections.abc import Callable

from deltalake import DeltaTable
from fork_server import commands
from gateway_peer import Connect
from gateway_process import Gateway, until

Make = Callable[..., Gateway]
AT_ONCE = {"upkeep": {"retention_seconds": 0}, "commit": {"interval_ms": 100}}


def messages(gateway: Gateway) -> int:
    """How many the table has."""
    table = DeltaTable(gateway.home / "tables/topic_log").to_pyarrow_table(columns=["record"])
    return table["record"].to_pylist().count("message")


def test_what_all_have_acknowledged_is_gone(own_gateway: Make, connect: Connect) -> None:
    """Not what a durable subscription is owed, nor what a plain consumer hasn't taken yet, that
    reads from the table as memory has none of it; then all of it, over a kill as well. A consumer
    on a quiet topic holds nothing up."""
    gateway = own_gateway({**AT_ONCE, "delivery": {"cache_bytes": 4_096}}).start()
    peer = connect("c", port=gateway.port)
    quiet = peer.receiver("quiet")
    plain, kept = peer.receiver("t"), peer.durable("t", "kept")
    peer.sender("t").publish(*range(200))
    kept.confirm(kept.take(170))
    gateway.await_event("store.opened")
    until(lambda: messages(gateway) == 200, "all of it is in the table")
    assert plain.bodies(150) == list(range(150))
    # A file is cut when half of it goes, so no more than this stays, however many files there are.
    until(lambda: messages(gateway) <= 100, "what both have had is gone", 60)
    assert plain.bodies(50) == list(range(150, 200))
    gateway.kill()
    gateway.start()
    peer = connect("c", port=gateway.port)
    kept = peer.durable("t", "kept")
    assert kept.bodies(30) == list(range(170, 200))
    until(lambda: messages(gateway) == 0, "all of it is gone", 60)
    peer.sender("t").publish("new")
    assert kept.bodies() == ["new"]
    assert quiet is not None
    gateway.stop()
    found = commands().run("verify", "--home", gateway.home)
    assert found.returncode == 0, found.stdout
