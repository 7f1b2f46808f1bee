"""The links of $management: any client's way to ask, who may ask what, what hostile ones get."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_links import Incoming, encoded
from gateway_management import NODE, Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway, until
from proton import Delivery, Message, symbol, ulong
from proton.utils import BlockingConnection, SyncRequestResponse

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

READ = {"operation": "READ", "type": "node", "name": "self"}


def test_protons_own_request_and_response_is_understood(gateway: Gateway) -> None:
    """A dynamic source for the answers, which are messages of a temporary queue."""
    connection = BlockingConnection(f"127.0.0.1:{gateway.port}", timeout=30)
    try:
        service = SyncRequestResponse(connection, NODE)
        answer = service.call(Message(properties=READ))
        assert answer.properties["statusCode"] == 200
        assert answer.body["connections"] >= 1
    finally:
        connection.close()


def test_an_answer_has_the_correlation_that_was_asked_for(connect: Connect, topic: str) -> None:
    """The request's own correlation-id before its message-id; on any queue that one may send to."""
    peer = connect()
    requests = peer.sender(NODE)
    answers = peer.receiver(f"queue://{topic}", capabilities=("queue",))
    reply_to = f"queue://{topic}"
    requests.publish_data(
        [
            encoded(None, properties=READ, id="id", reply_to=reply_to),
            encoded(None, properties=READ, id="id", correlation_id="mine", reply_to=reply_to),
        ]
    )
    got = [one.message for one in answers.take(2)]
    assert sorted(one.correlation_id for one in got) == ["id", "mine"]


def rejection(peer: Peer, data: bytes) -> str:
    """The condition with which a request is rejected."""
    requests = peer.sender(NODE)
    delivery = requests.send(data)
    assert requests.outcome(delivery) == Delivery.REJECTED
    return str(delivery.remote.condition.name)


@pytest.mark.parametrize(
    ("data", "condition"),
    [
        (encoded(None, properties=READ), "amqp:not-found"),
        (encoded(None, properties=READ, reply_to="$nowhere"), "amqp:not-found"),
        (encoded(None, properties=READ, reply_to="temp-queue://gone"), "amqp:not-found"),
        (encoded("x" * 70_000, properties=READ, reply_to="q"), "amqp:link:message-size-exceeded"),
        (b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x74\xc1\x03\x02\x43\x40", "amqp:invalid-field"),
    ],
    ids=["no reply-to", "no address", "gone", "too large", "damaged"],
)
@pytest.mark.usefixtures("unharmed")
def test_a_request_that_can_not_be_answered_is_rejected(
    connect: Connect, data: bytes, condition: str
) -> None:
    """And the next one on the same link is answered."""
    peer = connect()
    assert rejection(peer, data) == condition
    assert Manager(peer).ask("READ", "node", "self").status == 200


def test_what_was_sent_settled_and_can_not_be_answered_ends_its_link(connect: Connect) -> None:
    peer = connect()
    requests = peer.sender(NODE, presettled=True)
    requests.send(encoded(None, properties=READ), settled=True)
    assert peer.amqp_error(requests) == "amqp:not-found"


@pytest.mark.usefixtures("unharmed")
def test_who_gives_no_credit_for_answers_is_asked_no_more(connect: Connect) -> None:
    """Its requests wait for their answers' room; what is under way is bounded by its credit."""
    peer = connect()
    manager = Manager(peer)
    first = manager.requests.link.credit
    for _ in range(first):
        manager.send("READ", "node", "self")
    peer.heard()
    answered = manager.answers.take(first)
    assert len(answered) == first
    assert manager.ask("READ", "node", "self").status == 200


def test_answers_of_all_links_have_a_limit_together(
    own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    """`management.replies_together_bytes_max`: while one peer doesn't take its answers, requests of
    another one are rejected; with room they are answered."""
    limits = {"replies_bytes_max": 2_000, "replies_together_bytes_max": 2_000}
    gateway = own_gateway({"management": limits}).start()
    greedy, other = Manager(connect(port=gateway.port)), Manager(connect(port=gateway.port))
    for _ in range(20):
        greedy.send("READ", "node", "self")
    greedy.peer.heard()
    request = encoded(None, properties=READ, id="id", reply_to=other.address)
    assert rejection(other.peer, request) == "amqp:resource-limit-exceeded"
    greedy.peer.drop()
    until(lambda: len(gateway.events("connection.closed")) >= 1, "the peer is gone")
    assert other.ask("READ", "node", "self").status == 200
    gateway.stop()


@pytest.mark.usefixtures("unharmed")
def test_a_link_that_goes_while_it_is_answered_harms_nobody(connect: Connect) -> None:
    for closed in (True, False):
        peer = connect()
        manager = Manager(peer)
        for nth in range(10):
            manager.send("CREATE", "queue", f"left-{closed}-{nth}")
        peer.leave(manager.answers, closed=closed)
        peer.leave(manager.requests, closed=closed)
        lost = connect()
        manager = Manager(lost)
        for nth in range(10):
            manager.send("DELETE", "queue", f"left-{closed}-{nth}")
        lost.write()
        lost.drop()


@pytest.mark.usefixtures("unharmed")
def test_requests_that_are_no_requests_are_told_so(connect: Connect) -> None:
    """Random attributes, of random types, for every operation: each has an answer, none is ours
    to answer for."""
    peer = connect()
    manager = Manager(peer)
    rng = random.Random(7)
    values = [None, True, -1, 2**40, "x", "global/x", b"\x00", [1, [2]], {"a": {"b": 1}}, 1.5]
    words = ["to", "force", "policy", "topic", "max", "count", "attributeNames", "selector", "?"]
    for _ in range(300):
        operation = rng.choice(["READ", "UPDATE", "QUERY", "REWIND", "REDRIVE", "CREATE", "NO"])
        kind = rng.choice(["queue", "subscription", "topic", "node", "?"])
        body = {rng.choice(words): rng.choice(values) for _ in range(rng.randrange(3))}
        name = rng.choice(["", "x", "global/x", "queue://x", "a\x00b", "$x", "queue/%zz"])
        answer = manager.ask(operation, kind, name, **body)
        assert answer.status in {200, 201, 400, 404, 409, 501}, (operation, kind, name, body)


WRITTEN = """
[reader]
consume = ["orders", "queue://orders"]
create = ["temp-queue://*"]
[maker]
create = ["orders", "queue://orders"]
[keeper]
manage = ["orders", "queue://*"]
[owner]
consume = ["vault"]
create = ["vault"]
[forger]
publish = ["queue://grave"]
create = ["queue://grave"]
"""


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("management")
    users, permissions = folder / "users.toml", folder / "permissions.toml"
    with changing(users) as known:
        for name in ("reader", "maker", "keeper", "owner", "forger"):
            known[name] = user_of("x")
    permissions.write_text(WRITTEN)
    settings = {"security": {"users": str(users), "permissions": str(permissions)}}
    with Gateway(folder / "gateway", settings) as gateway:
        yield gateway


User = Callable[[str], Peer]


@pytest.fixture
def as_user(ruled: Gateway, connect: Connect) -> User:
    """All users have the same password here."""
    return lambda user: connect(port=ruled.port, user=user, password="x")  # noqa: S106


@pytest.mark.parametrize(
    ("operation", "body", "allowed"),
    [
        ("CREATE", {}, {"maker", "keeper"}),
        ("READ", {}, {"reader", "keeper"}),
        ("PAUSE", {}, {"keeper"}),
        ("RESUME", {}, {"keeper"}),
        ("PURGE", {}, {"keeper"}),
        ("REWIND", {"to": 0}, {"keeper"}),
        ("SKIP", {}, {"keeper"}),
        ("UPDATE", {"policy": {}}, {"keeper"}),
        ("CLOSE", {}, {"keeper"}),
        ("REDRIVE", {}, {"keeper"}),
        ("DELETE", {"force": True}, {"maker", "keeper"}),
    ],
)
def test_each_operation_needs_its_permission(
    as_user: User, operation: str, body: dict[str, object], allowed: set[str]
) -> None:
    for user in ("reader", "maker", "keeper"):
        keeper = Manager(as_user("keeper"))
        if operation == "CREATE":
            keeper.ask("DELETE", "queue", "orders", force=True)
        else:
            keeper.ask("CREATE", "queue", "orders")
        asking = Manager(as_user(user))
        answer = asking.ask(operation, "queue", "orders", **body)
        assert (answer.status != 403) is (user in allowed), (user, answer)


def test_the_node_tells_the_rights_of_who_asks(as_user: User) -> None:
    """Of destinations and subscriptions, whether they are there or not."""
    said = {
        "consume": ["orders", "queue://orders", "vault", "gone"],
        "see": {"global/never": "orders", "queue/orders": "queue://orders", "global/v": "vault"},
    }
    for user, consume, see in (
        ("reader", ["orders", "queue://orders"], ["global/never", "queue/orders"]),
        ("keeper", [], ["global/never", "queue/orders"]),
        ("owner", ["vault"], ["global/v"]),
        ("forger", [], []),
    ):
        found = Manager(as_user(user)).done("READ", "node", "self", **said)
        assert (found["consume"], sorted(found["see"])) == (consume, see), user
    asking = Manager(as_user("reader"))
    assert "no subscription's id" in asking.refused(400, "READ", "node", "self", see={"x": "t"})
    many = [f"t{n}" for n in range(101)]
    assert "query_count_max" in asking.refused(400, "READ", "node", "self", consume=many)


def test_a_query_shows_what_one_may_read(as_user: User) -> None:
    keeper = Manager(as_user("keeper"))
    for name in ("orders", "secret"):
        keeper.ask("CREATE", "queue", name)
    reader = Manager(as_user("reader"))
    seen = reader.done("QUERY", "queue", attributeNames=["name"])
    assert [name for [name] in seen["results"]] == ["orders"]
    assert seen["total"] == 1


def test_an_answer_goes_nowhere_one_may_not_send(as_user: User) -> None:
    peer = as_user("reader")
    assert (
        rejection(peer, encoded(None, properties=READ, reply_to="queue://orders"))
        == "amqp:unauthorized-access"
    )


def test_a_forged_dead_letter_goes_nowhere(as_user: User) -> None:
    """It names as its origin a topic to which its forger may not send; a user who redrives must be
    allowed to manage that topic."""
    owner = as_user("owner")
    vault = owner.durable("vault", "v")
    said = {
        "subscription": f"container/{owner.container}/v",
        "topic": "vault",
        "sequence": ulong(1),
    }
    annotations = {symbol(f"x-opt-dead-letter-{key}"): value for key, value in said.items()}
    as_user("forger").sender("queue://grave").publish_data([encoded("x", annotations=annotations)])
    done = Manager(as_user("keeper")).done("REDRIVE", "queue", "grave")
    assert (done["redriven"], done["stayed"]) == (0, 1)
    assert vault.nothing()


def test_answers_to_a_link_that_has_another_connection_are_not_its(connect: Connect) -> None:
    """An address of answers is its connection's own: no other connection reads them."""
    other: Incoming = connect().receiver(NODE, capabilities=(), target="mine")
    peer = connect()
    requests = peer.sender(NODE)
    requests.publish_data([encoded(None, properties=READ, reply_to="mine")])
    assert other.drain(1) == 0
