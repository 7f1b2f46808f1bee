"""Routes by policy: what is sent to a topic also goes elsewhere, in one group with it."""

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from gateway_links import Incoming, encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.policy import DEFAULT, DEFAULT_TOPIC
from distributary.pipeline.subscriptions.policy_table import parse

Make = Callable[..., Gateway]
WRITTEN = """
[[topic]]
match = "orders"
routes = ["queue://billing where amount > 100", "audit"]
[[topic]]
match = "a*"
routes = ["orders", "audit"]
"""


@pytest.fixture
def routed(own_gateway: Make, tmp_path: Path) -> Gateway:
    file = tmp_path / "policies.toml"
    file.write_text(WRITTEN)
    return own_gateway({"delivery": {"policies": str(file)}}).start()


def order(number: int, amount: int, **fields: object) -> bytes:
    return encoded(number, properties={"amount": amount}, **fields)


def everything(incoming: Incoming) -> list[object]:
    incoming.drain(1_000)
    got, incoming.inbox = incoming.inbox, []
    incoming.confirm(got)
    return [one.body for one in got]


def billing(peer: Peer) -> Incoming:
    return peer.receiver("queue://billing", capabilities=("queue",))


def test_what_a_route_s_selector_selects_goes_there_too(routed: Gateway, connect: Connect) -> None:
    """By a link and by the relay; the queue is made by the first; each copy is as the message. A
    copy isn't routed again, and a route to its own topic is none."""
    peer = connect(port=routed.port)
    orders, audit = peer.receiver("orders"), peer.receiver("audit")
    messages = [order(n, 50 * n) for n in range(6)]
    peer.sender("orders").publish_data(messages[:3])
    peer.sender(None).publish_data([order(n, 50 * n, address="orders") for n in range(3, 6)])
    assert orders.bodies(6) == audit.bodies(6) == list(range(6))
    assert billing(peer).bodies(3) == [3, 4, 5]
    peer.sender("audit").publish("to the audit alone")
    assert audit.bodies(1) == orders.bodies(1) == ["to the audit alone"]
    assert audit.nothing()
    assert orders.nothing()
    assert everything(billing(peer)) == []


def test_copies_lie_in_the_group_of_their_message(routed: Gateway, connect: Connect) -> None:
    """So after any end of the process both are there or neither."""
    peer = connect(port=routed.port)
    for n in range(5):
        peer.sender("orders").publish_data([order(n, 1_000)])
    peer.close()
    routed.kill()
    routed.start()
    assert everything(billing(connect(port=routed.port))) == list(range(5))
    routed.stop()
    table = DeltaTable(routed.home / "tables" / "topic_log")
    rows = table.to_pyarrow_table(columns=["record", "topic", "group"]).to_pylist()
    of_topic: dict[str, list[int]] = {}
    for row in rows:
        if row["record"] == "message":
            of_topic.setdefault(row["topic"], []).append(row["group"])
    assert sorted(of_topic["orders"]) == sorted(of_topic["queue://billing"])
    assert sorted(of_topic["orders"]) == sorted(of_topic["audit"])
    routed.verified()
    routed.start()


@pytest.mark.parametrize(
    ("routes", "said"),
    [
        ("7", "routes must be a route, or a list of 32 at most"),
        ('"queue://"', "'queue://' is not the name of a topic or queue"),
        ('["queue://"]', "'queue://' is not the name of a topic or queue"),
        ('["temp-queue://1"]', "a temporary destination can't be one"),
        ('["a where b >"]', "line 1"),
        ("[1]", "is not the name of a topic or queue"),
    ],
)
def test_a_route_that_says_nothing_is_refused(routes: str, said: str) -> None:
    tree = tomllib.loads(f'[[topic]]\nmatch = "a"\nroutes = {routes}\n')
    with pytest.raises(InvalidRequest) as wrong:
        parse(tree, DEFAULT, DEFAULT_TOPIC)
    assert said in str(wrong.value)
