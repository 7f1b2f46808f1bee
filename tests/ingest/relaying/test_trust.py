"""The right to relay links for other clients, and the claims that an owner believes."""

from collections.abc import Callable
from pathlib import Path

import pytest
from async_client import bodies, run
from gateway_certificates import Authority
from gateway_fields import composite
from gateway_fleet import OF_ANOTHER, Fleet
from gateway_frames import ATTACH, DETACH, Raw, begin_frame, frame, open_frame
from gateway_peer import Connect, Peer, PeerLost
from gateway_process import Gateway
from gateway_sasl import AMQP_HEADER, Login, init, plain
from proton import ubyte, uint

from distributary import client as clients
from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

Make = Callable[..., Gateway]
RIGHTS = """
[alice]
publish = ["orders.mine"]
consume = ["orders.mine"]
create = ["orders.mine"]
"""


def test_only_who_knows_the_secret_is_a_gateway(fleet: Fleet) -> None:
    secret = fleet.lake.secret()
    for port in (fleet.main.port, fleet.orders.port):
        with Login(port) as login:
            assert "SCRAM-SHA-256" not in login.mechanisms
            assert login.scram("$gateway", secret[:-1] + "x") == 1
        with Login(port) as login:
            assert login.scram("$gateway", secret) == 0
        with Login(port) as login:
            assert login.log_in(plain("$gateway", secret)) == 0  # as any client: anonymous
            assert refused(login) == "amqp:unauthorized-access"


def test_a_home_with_one_log_knows_no_gateways(own_gateway: Make) -> None:
    with own_gateway() as gateway, Login(gateway.port) as login:
        assert login.mechanisms == ["PLAIN", "ANONYMOUS"]
        assert login.log_in(init("SCRAM-SHA-256", b"n,,n=$gateway,r=x")) == 1


def refused(raw: Raw) -> str:
    """The error of a link that says that it is another's."""
    raw.send(open_frame("mallory"), begin_frame())
    modes = (ubyte(0), ubyte(0))
    source, target = composite(0x28, "orders.x"), composite(0x29)
    rest = (None, None, None, None, None, None, OF_ANOTHER)
    raw.send(frame(ATTACH, "mine", uint(0), True, *modes, source, target, *rest))
    return str(raw.next(DETACH).error)


def test_nobody_else_is_believed(fleet: Fleet) -> None:
    with Raw(fleet.orders.port, hello=AMQP_HEADER) as raw:
        assert refused(raw) == "amqp:unauthorized-access"


def test_the_users_rights_hold_at_the_owner(tmp_path: Path, own_gateway: Make) -> None:
    users, permissions = tmp_path / "users.toml", tmp_path / "permissions.toml"
    with changing(users) as known:
        known["alice"] = user_of("x")
    permissions.write_text(RIGHTS)
    settings = {"security": {"users": str(users), "permissions": str(permissions)}}
    with Fleet(tmp_path, own_gateway, settings) as fleet:
        hers = {"user": "alice", "password": "x"}
        with Peer(fleet.main.port, "alices", **hers) as peer:
            mine = peer.receiver("orders.mine")
            peer.sender("orders.mine").publish("hers")
            assert mine.bodies() == ["hers"]
            for link in (
                peer.receiver("orders.others", opened=False),
                peer.sender("orders.others", opened=False),
            ):
                assert peer.amqp_error(link) == "amqp:unauthorized-access"
        lines = fleet.orders.events("permission.refused")
        assert {line["user"] for line in lines} == {"alice"}


def test_no_users_file_has_a_gateway(tmp_path: Path, own_gateway: Make) -> None:
    users = tmp_path / "users.toml"
    with changing(users) as known:
        known["alice"] = user_of("x")
    users.write_text(users.read_text().replace('"alice"', '"$gateway"'))
    gateway = own_gateway({"security": {"users": str(users)}})
    gateway.spawn()
    gateway.ended(2)
    assert "gateways log in at each other so" in gateway.log


def test_a_client_id_that_is_sole_is_so_at_the_owner(fleet: Fleet, connect: Connect) -> None:
    first = connect("sole", port=fleet.orders.port, sole=True)
    second = connect("sole", port=fleet.main.port, sole=False)
    link = second.receiver("orders.sole", opened=False)
    assert second.amqp_error(link) == "amqp:invalid-field"
    second.close()
    first.close()
    again = connect("sole", port=fleet.main.port, sole=True)
    assert again.receiver("orders.sole").nothing()
    with pytest.raises(PeerLost):
        connect("sole", port=fleet.orders.port)


def test_gateways_speak_tls_where_clients_do(tmp_path: Path, own_gateway: Make) -> None:
    authority = Authority(tmp_path)
    chain, key = map(str, authority.issue("server", "gateway"))
    settings = {
        "security": {"tls_certificate": chain, "tls_key": key},
        "fleet": {"tls_ca": str(authority.file)},
    }
    fleet = Fleet(tmp_path, own_gateway, settings)
    for gateway in (fleet.main, fleet.orders):
        place = f'"localhost:{gateway.port}"'
        gateway.environment["DISTRIBUTARY_GATEWAY_ADVERTISE"] = place
    with fleet:

        async def work() -> None:
            url = f"amqps://localhost:{fleet.main.port}"
            async with (
                clients.connect(url, ca=authority.file) as client,
                client.consume("orders.tls") as consumer,
            ):
                for secret in ("secret", "of many records of TLS" * 5_000):
                    await client.publish("orders.tls", secret)
                    assert await bodies(consumer, 1) == [secret]

        run(work())
