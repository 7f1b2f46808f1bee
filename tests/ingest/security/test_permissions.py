"""Permissions of users, over real links: a forbidden action is answered so, and nothing happens."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from gateway_links import encoded
from gateway_peer import Connect, Peer, PeerLost
from gateway_process import Gateway
from proton import Delivery

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

Make = Callable[..., Gateway]
UNAUTHORIZED = "amqp:unauthorized-access"

WRITTEN = """
["*"]
consume = ["news"]
[anonymous]
publish = ["inbox"]
[alice]
publish = ["orders.*", "queue://billing/*"]
consume = ["orders.*", "queue://billing/*"]
create = ["orders.*", "queue://billing/*", "temp-queue://*"]
[worker]
publish = ["orders.*", "queue://*", "temp-queue://*"]
consume = ["orders.*", "queue://*"]
[warden]
manage = ["orders.eu"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("permissions")


@pytest.fixture(scope="module")
def settings(folder: Path) -> dict[str, object]:
    """All users have the same password here."""
    users, permissions = folder / "users.toml", folder / "permissions.toml"
    with changing(users) as known:
        for name in ("alice", "worker", "warden"):
            known[name] = user_of("x")
    permissions.write_text(WRITTEN)
    return {"security": {"users": str(users), "permissions": str(permissions)}}


@pytest.fixture(scope="module")
def ruled(folder: Path, settings: dict[str, object]) -> Iterator[Gateway]:
    """One gateway for all tests that don't change its rules."""
    with Gateway(folder / "gateway", settings) as gateway:
        yield gateway


User = Callable[[str], Peer]


@pytest.fixture
def user(ruled: Gateway, connect: Connect) -> User:
    """A connection of that user, or an anonymous one."""

    def new(name: str) -> Peer:
        login = {} if name == "anonymous" else {"user": name, "password": "x"}
        return connect(port=ruled.port, **login)

    return new


def refused(peer: Peer, link: object) -> None:
    """The link ends with the condition, and its connection goes on."""
    assert peer.amqp_error(link) == UNAUTHORIZED
    peer.heard()


def test_who_may_publish_does_and_who_may_not_is_refused(user: User) -> None:
    """On the link, with a sentence that says who, what and where."""
    user("alice").sender("orders.eu").publish("fine")
    for name, topic in (("alice", "news"), ("anonymous", "orders.eu"), ("warden", "orders.eu")):
        peer = user(name)
        link = peer.sender(topic, opened=False)
        peer.until(partial(peer.refused, link.link), "a refusal")
        said = link.link.remote_condition.description
        assert all(f"'{word}'" in said for word in (name, topic))
        assert "publish" in said
        refused(peer, link)


def test_who_may_consume_does_and_who_may_not_is_refused(user: User) -> None:
    """Publishing gives no right to consume; anonymous peers have the rights of all users."""
    user("anonymous").receiver("news")
    user("alice").receiver("orders.eu")
    for name, topic in (("anonymous", "inbox"), ("alice", "inbox"), ("warden", "orders.eu")):
        peer = user(name)
        refused(peer, peer.receiver(topic, opened=False))


def test_a_queue_and_a_topic_of_one_name_have_rules_of_their_own(user: User) -> None:
    """Patterns are for one kind."""
    peer = user("alice")
    refused(peer, peer.receiver("billing/eu", opened=False))
    refused(peer, peer.sender("queue://orders.eu", opened=False))
    peer.sender("queue://billing/eu").publish("invoice")
    assert peer.receiver("queue://billing/eu", capabilities=("queue",)).bodies() == ["invoice"]


def test_a_new_queue_is_made_by_who_may_make_it(user: User) -> None:
    """Others use it when it is there; a refused attach doesn't make it."""
    alice, worker = user("alice"), user("worker")
    for address in ("queue://billing/new", "queue://elsewhere"):
        refused(worker, worker.sender(address, opened=False))
        refused(worker, worker.receiver(address, capabilities=("queue",), opened=False))
    alice.sender("queue://billing/new")
    worker.sender("queue://billing/new").publish("now")
    assert worker.receiver("queue://billing/new", capabilities=("queue",)).bodies() == ["now"]


def test_a_message_on_the_relay_is_rejected_and_not_its_link(user: User) -> None:
    """Each message is asked for by itself, and the others go on in their order."""
    peer = user("worker")
    receiver = peer.receiver("orders.eu")
    relay = peer.sender(None)
    wanted = ["orders.eu", "news", "queue://new", "queue://new", "orders.eu"]
    sent = [relay.send(encoded(number, address=address)) for number, address in enumerate(wanted)]
    outcomes = [relay.outcome(one) for one in sent]
    good, bad = Delivery.ACCEPTED, Delivery.REJECTED
    assert outcomes == [good, bad, bad, bad, good]
    assert sent[1].remote.condition.name == UNAUTHORIZED
    assert "'news'" in sent[1].remote.condition.description
    assert receiver.bodies(2) == [0, 4]
    relay.publish_data([encoded("after", address="orders.eu")])


def test_what_lasts_is_made_by_who_may_make_it(user: User) -> None:
    """A durable subscription; one that ends with its consumers needs no more than `consume`."""
    worker = user("worker")
    refused(worker, worker.durable("orders.eu", "mine", opened=False))
    refused(worker, worker.shared_durable("orders.eu", "ours|global", opened=False))
    worker.shared("orders.eu", "ours|volatile1")
    user("alice").shared_durable("orders.eu", "ours|global")
    worker.shared_durable("orders.eu", "ours|global")


def test_what_lasts_is_ended_by_who_may_make_it_or_manages_it(user: User) -> None:
    """A user who may only consume can't end it: neither by a look-up, nor by closing the link."""
    alice, worker, warden = user("alice"), user("worker"), user("warden")
    for end in (alice, warden):
        first = alice.shared_durable("orders.eu", "kept|global")
        alice.leave(first, closed=False)
        assert worker.unsubscribe("kept|global") == UNAUTHORIZED
        second = worker.shared_durable("orders.eu", "kept|global")
        alice.sender("orders.eu").publish("still owed")
        assert worker.leave(second, closed=True) == UNAUTHORIZED
        third = alice.shared_durable("orders.eu", "kept|global")
        assert third.bodies() == ["still owed"]
        alice.leave(third, closed=False)
        assert end.unsubscribe("kept|global") == ""
        assert end.unsubscribe("kept|global") == "amqp:not-found"


def test_what_lasts_is_not_redefined_away(user: User) -> None:
    """A user who may not end a subscription can't put another in its place."""
    alice, worker, warden = user("alice"), user("worker"), user("warden")
    alice.leave(alice.shared_durable("orders.us", "place|global"), closed=False)
    refused(worker, worker.shared_durable("orders.eu", "place|global", opened=False))
    # It manages another topic: of this one it isn't told that there is anything.
    assert warden.unsubscribe("place|global") == "amqp:not-found"
    alice.sender("orders.us").publish("kept")
    assert alice.shared_durable("orders.us", "place|global").bodies() == ["kept"]


def test_who_may_make_a_temporary_queue_consumes_from_it(user: User) -> None:
    """It also sends to it; no line says that. Other users may send by lines as for any queue."""
    alice, worker = user("alice"), user("worker")
    replies = alice.receiver(None, capabilities=(), dynamic=True)
    address = replies.link.remote_source.address
    worker.sender(None).publish_data([encoded("a reply", address=address)])
    assert replies.bodies() == ["a reply"]
    alice.sender(address).publish("mine")
    made = alice.sender(None, capabilities=("temporary-queue",), dynamic=True)
    made.publish("not sent by JMS clients, but fine")
    assert replies.bodies() == ["mine"]
    stranger = user("anonymous")
    refused(stranger, stranger.sender(address, opened=False))
    foreign = stranger.sender(None).send(encoded("spam", address=address))
    stranger.until(lambda: foreign.settled, "an outcome")
    assert foreign.remote_state == Delivery.REJECTED
    assert foreign.remote.condition.name == UNAUTHORIZED
    refused(worker, worker.receiver(None, capabilities=(), dynamic=True, opened=False))
    topic = ("temporary-topic",)
    refused(alice, alice.sender(None, capabilities=topic, dynamic=True, opened=False))


def test_temporary_destinations_are_made_by_who_may_make_them(user: User) -> None:
    """Its maker uses it without a further right; other users need `publish` to answer there."""
    alice, warden = user("alice"), user("warden")
    refused(warden, warden.receiver(None, dynamic=True, capabilities=(), opened=False))
    answers = alice.receiver(None, dynamic=True, capabilities=())
    address = answers.link.remote_source.address
    alice.sender(address).publish("to myself")
    assert answers.bodies() == ["to myself"]
    refused(warden, warden.sender(address, opened=False))


def test_a_browser_needs_what_a_consumer_needs(user: User) -> None:
    """To look is to read."""
    alice, nobody = user("alice"), user("anonymous")
    alice.sender("queue://billing/seen").publish("invoice")
    address = "queue://billing/seen"
    refused(nobody, nobody.receiver(address, capabilities=("queue",), copy=True, opened=False))
    assert alice.receiver(address, capabilities=("queue",), copy=True).bodies() == ["invoice"]


def test_permissions_are_read_again_when_they_change(
    own_gateway: Make, connect: Connect, tmp_path: Path, settings: dict[str, object]
) -> None:
    """The next attach and the next message of a relay hear of it; links that are there stay. A
    file that can't be read changes nothing."""
    file = tmp_path / "permissions.toml"
    file.write_text('["*"]\npublish = ["a"]\n')
    security = {**settings["security"], "permissions": str(file)}
    with own_gateway({"security": security}) as gateway:
        peer = connect(port=gateway.port)
        sender, relay = peer.sender("a"), peer.sender(None)
        relay.publish_data([encoded("first", address="a")])

        file.write_text('["*"]\npublish = "b"\n')
        assert "a list of patterns" in str(gateway.await_event("security.kept")["reason"])
        peer.sender("a").publish("as before")

        file.write_text('["*"]\npublish = ["b"]\n')
        gateway.await_event("security.reloaded")
        sender.publish("a link that is there")
        refused(peer, peer.sender("a", opened=False))
        peer.sender("b").publish("allowed now")
        [rejected] = [relay.send(encoded("no more", address="a"))]
        assert relay.outcome(rejected) == Delivery.REJECTED


def test_permissions_that_can_not_be_read_stop_the_start(own_gateway: Make, tmp_path: Path) -> None:
    """One sentence that names the file and the line's owner."""
    file = tmp_path / "permissions.toml"
    for text, says in (('[alice]\nfly = ["x"]', "unknown action 'fly'"), ("[alice", "Expected")):
        file.write_text(text)
        gateway = own_gateway({"security": {"permissions": str(file)}})
        gateway.spawn()
        gateway.ended(2)
        assert str(file) in gateway.log
        assert says in gateway.log
        assert "Traceback" not in gateway.log


def test_a_refusal_stands_in_the_log(user: User, ruled: Gateway) -> None:
    """The line has the user, the actions and the topic."""
    peer = user("alice")
    refused(peer, peer.sender("secrets", opened=False))
    event = ruled.events("permission.refused")[-1]
    assert (event["user"], event["actions"], event["topic"]) == ("alice", "publish", "secrets")


def test_a_wrong_password_gets_no_permissions(ruled: Gateway, connect: Connect) -> None:
    """Not even an anonymous peer's."""
    with pytest.raises(PeerLost):
        connect(port=ruled.port, user="alice", password="y")  # noqa: S106
