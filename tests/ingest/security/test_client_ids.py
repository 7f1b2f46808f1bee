"""Names that belong to users, over real links: no user drains another's subscription by name."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_management import Manager
from gateway_peer import Connect, Peer, PeerLost
from gateway_process import Gateway

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

Make = Callable[..., Gateway]
UNAUTHORIZED = "amqp:unauthorized-access"
PERMISSIONS = """
["*"]
publish = ["orders"]
consume = ["orders"]
create = ["orders"]
[warden]
manage = ["orders"]
"""
NAMES = """
["*"]
client_ids = ["{user}", "{user}-*"]
[alice]
client_ids = ["billing"]
subscriptions = ["dispatchers"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("names")


@pytest.fixture(scope="module")
def settings(folder: Path) -> dict[str, object]:
    security = {}
    for name, text in (("permissions", PERMISSIONS), ("client_ids", NAMES)):
        file = folder / f"{name}.toml"
        file.write_text(text)
        security[name] = str(file)
    security["users"] = str(folder / "users.toml")
    with changing(folder / "users.toml") as known:
        for name in ("alice", "mallory", "warden"):
            known[name] = user_of("x")
    return {"security": security}


@pytest.fixture(scope="module")
def ruled(folder: Path, settings: dict[str, object]) -> Iterator[Gateway]:
    with Gateway(folder / "gateway", settings) as gateway:
        yield gateway


User = Callable[..., Peer]


@pytest.fixture
def user(ruled: Gateway, connect: Connect) -> User:
    return lambda name, container: connect(container, port=ruled.port, user=name, password="x")  # noqa: S106


def test_a_client_id_is_opened_by_whose_it_is(user: User, ruled: Gateway) -> None:
    """In the form that JMS clients take for an InvalidClientIDException; said to one who may not
    have it also while it is in use."""
    alice = user("alice", "billing")
    for name in ("billing", "alice", "alice-2", "reports"):
        with pytest.raises(PeerLost):
            user("mallory", name)
        reason = str(ruled.events("connection.failed")[-1]["reason"])
        assert f"'{name}' may not be used by user 'mallory' (security.client_ids)" in reason
    event = ruled.events("client_id.refused")[-1]
    assert (event["user"], event["client_id"]) == ("mallory", "reports")
    for name in ("mallory", "mallory-2"):
        user("mallory", name)
    alice.heard()


def test_a_global_name_is_used_by_whose_it_is(user: User) -> None:
    """To consume, to look up and to end, durable or not; any other name is free."""
    alice, mallory = user("alice", "alice"), user("mallory", "mallory")
    alice.leave(alice.shared_durable("orders", "dispatchers|global"), closed=False)
    alice.sender("orders").publish("secret")
    assert mallory.amqp_error(
        mallory.shared_durable("orders", "dispatchers|global", opened=False)
    ) == (UNAUTHORIZED)
    assert mallory.amqp_error(mallory.shared("orders", "dispatchers|global", opened=False)) == (
        UNAUTHORIZED
    )
    assert mallory.unsubscribe("dispatchers|global") == "amqp:not-found"
    mallory.shared_durable("orders", "reports|global")
    assert alice.shared_durable("orders", "dispatchers|global").bodies() == ["secret"]


def test_what_is_anothers_is_neither_seen_nor_taken_nor_ended_by_requests(user: User) -> None:
    """Only a user who manages the topic may do these."""
    alice, mallory = user("alice", "billing"), user("mallory", "mallory")
    alice.leave(alice.durable("orders", "invoices"), closed=False)
    asking, key = Manager(mallory), "container/billing/invoices"
    said = {"holder": "h", "keep": "", "max": 1}
    for operation, body in (
        ("READ", {}),
        ("OWED", {}),
        ("ACQUIRE", said),
        ("DELETE", {"force": True}),
    ):
        asking.refused(404, operation, "subscription", key, **body)
    made = {"topic": "orders"}
    asking.refused(403, "CREATE", "subscription", "container/billing/more", **made)
    asking.refused(403, "CREATE", "subscription", "global/dispatchers-", topic="elsewhere")
    asking.refused(403, "DELETE", "topic", "orders", force=True)
    rows = asking.done("QUERY", "subscription", attributeNames=["name"])["results"]
    assert [key] not in rows
    assert key not in asking.done("READ", "topic", "orders")["subscriptions"]
    warden = Manager(user("warden", "warden"))
    assert warden.done("READ", "subscription", key)["name"] == key
    warden.done("DELETE", "subscription", key)


def test_names_are_read_again_when_they_change(
    own_gateway: Make, connect: Connect, tmp_path: Path, settings: dict[str, object]
) -> None:
    """The next open hears of it; a file that can't be used changes nothing."""
    file = tmp_path / "client_ids.toml"
    file.write_text('[alice]\nclient_ids = ["a"]\n')
    security = {**settings["security"], "client_ids": str(file)}
    login = {"user": "mallory", "password": "x"}
    with own_gateway({"security": security}) as gateway:
        connect("free", port=gateway.port, **login)
        with pytest.raises(PeerLost):
            connect("a", port=gateway.port, **login)
        file.write_text('[alice]\nclient_ids = "b"\n')
        assert "a list of patterns" in str(gateway.await_event("security.kept")["reason"])
        file.write_text('[alice]\nclient_ids = ["b"]\n')
        gateway.await_event("security.reloaded")
        connect("a", port=gateway.port, **login)
        with pytest.raises(PeerLost):
            connect("b", port=gateway.port, **login)


def test_names_without_permissions_stop_the_start(own_gateway: Make, tmp_path: Path) -> None:
    """Without permissions every user manages everything, others' names too."""
    file = tmp_path / "client_ids.toml"
    file.write_text("")
    gateway = own_gateway({"security": {"client_ids": str(file)}})
    gateway.spawn()
    gateway.ended(2)
    assert "security.client_ids needs security.permissions" in gateway.log
