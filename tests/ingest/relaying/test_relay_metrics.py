"""What a gateway's metrics say of the owners of other logs."""

from pathlib import Path

from gateway_fleet import Fleet
from gateway_http import ShownGateway
from gateway_peer import Peer
from gateway_process import Gateway, Settings, until


def test_owners_of_other_logs_are_seen(tmp_path: Path) -> None:
    """None before a link is relayed; then whether it is there, what waits for it, how often it was
    lost."""
    made: list[Gateway] = []

    def make(settings: Settings | None = None) -> Gateway:
        made.append((Gateway if made else ShownGateway)(tmp_path / str(len(made)), settings))
        return made[-1]

    with Fleet(tmp_path, make) as fleet:
        main = fleet.main
        assert isinstance(main, ShownGateway)
        assert not [labels for name, labels in main.metrics() if "owner_" in name]
        with Peer(main.port) as peer:
            peer.receiver("queue://orders.seen", capabilities=())
            peer.sender("orders.seen").publish("one")
            peer.sender("own").publish("two")
            assert main.metric("owner_connected", log="orders") == 1
            assert main.metric("relayed_links", log="orders") == 2
            assert main.metric("owner_losses_total", log="orders") == 0
            fleet.orders.kill()
            main.await_metric(0, "owner_connected", log="orders")
            assert main.metric("relayed_links", log="orders") == 2
            assert main.metric("owner_losses_total", log="orders") == 1
            fleet.orders.start()
            until(lambda: main.metric("owner_connected", log="orders") == 1, "it is back")
        main.await_metric(0, "relayed_links", log="orders")
