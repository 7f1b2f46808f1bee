"""A topic's limits change while a consumer without a name is there: they hold for it, too."""

from collections.abc import Callable
from pathlib import Path

from gateway_links import encoded
from gateway_peer import Connect
from gateway_process import Gateway, until
from proton import Delivery

Make = Callable[..., Gateway]
ACCEPTED, REJECTED = Delivery.ACCEPTED, Delivery.REJECTED


def limit(file: Path, most: int, overflow: str = "refuse") -> None:
    file.write_text(
        f'[[topic]]\nmatch = "t"\nbacklog_messages_max = {most}\nbacklog_overflow = "{overflow}"\n'
    )


def test_a_consumer_without_a_name_has_the_limits_of_now(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """A higher one lets its publishers go on; one that drops the oldest drops them. A browser still
    has none."""
    file = tmp_path / "policies.toml"
    limit(file, 2)
    settings = {"delivery": {"policies": str(file), "expiry_scan_ms": 50}}
    with own_gateway(settings) as gateway:
        peer = connect(port=gateway.port)
        slow, sender = peer.receiver("t"), peer.sender("t")
        outcomes = [sender.outcome(sender.send(encoded(n))) for n in range(3)]
        assert outcomes == [ACCEPTED, ACCEPTED, REJECTED]
        limit(file, 3)
        gateway.await_event("policies.reloaded")
        assert sender.outcome(sender.send(encoded(3))) == ACCEPTED
        limit(file, 1, "drop_oldest")
        gateway.await_event("policies.reloaded", 2)
        dropped = gateway.await_event("backlog.overflowed")
        assert (dropped["subscription"], dropped["dropped"]) == ("a consumer of its own", 2)
        assert slow.bodies() == [3]
        file.write_text("")
        gateway.await_event("policies.reloaded", 3)
        sender.publish(*range(4, 9))
        assert slow.bodies(5) == [4, 5, 6, 7, 8]
        until(lambda: not gateway.events("gateway.bug"), "no bug")
