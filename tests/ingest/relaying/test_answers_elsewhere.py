"""Answers of `$management` to addresses in another gateway's log: its user may send there."""

from collections.abc import Callable
from pathlib import Path

from gateway_fleet import Fleet
from gateway_links import Outgoing, encoded
from gateway_management import NODE
from gateway_peer import Connect
from gateway_process import Gateway
from proton import Delivery

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

Make = Callable[..., Gateway]
SENDERS = """
[admin]
consume = ["queue://*"]
create = ["queue://*", "temp-queue://*"]
[alice]
publish = ["queue://orders.inbox", "queue://orders.none", "temp-queue://*"]
"""


def login(user: str) -> dict[str, str]:
    return {"user": user, "password": "x"}


def test_an_answer_goes_where_its_asker_may_send(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """As in one log: to queues that are there, and to another user's temporary queue."""
    users, permissions = tmp_path / "users.toml", tmp_path / "permissions.toml"
    with changing(users) as known:
        known["admin"] = known["alice"] = user_of("x")
    permissions.write_text(SENDERS)
    settings = {"security": {"users": str(users), "permissions": str(permissions)}}
    types = {"operation": "GET-TYPES", "type": "node"}
    with Fleet(tmp_path, own_gateway, settings) as fleet:
        admin = connect(port=fleet.orders.port, **login("admin"))
        inbox = admin.receiver("queue://orders.inbox", capabilities=("queue",))
        own = admin.receiver(None, capabilities=("temporary-queue",), dynamic=True)
        takers = {"queue://orders.inbox": inbox, own.link.remote_source.address: own}
        for gateway in (fleet.orders, fleet.main):
            alice = connect(port=gateway.port, **login("alice"))
            requests = alice.sender(NODE)

            def asked(address: str, requests: Outgoing = requests) -> Delivery:
                return requests.send(encoded(None, properties=types, id=1, reply_to=address))

            for address, taker in takers.items():
                assert requests.outcome(asked(address)) == Delivery.ACCEPTED, gateway.options
                [got] = taker.take()
                assert got.message.properties["statusCode"] == 200
            sent = asked("queue://orders.others")
            assert requests.outcome(sent) == Delivery.REJECTED
            assert sent.remote.condition.name == "amqp:unauthorized-access"
        asked("queue://orders.none")  # to make it takes a right, as its owner knows
        assert alice.amqp_error(requests) == "amqp:unauthorized-access"
