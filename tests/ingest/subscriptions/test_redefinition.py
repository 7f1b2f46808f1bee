"""A durable backlog doesn't vanish by an omission; and what drops messages says how many."""

from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway, until

Make = Callable[..., Gateway]
RED = selector("colour = 'red'")


@pytest.fixture
def manager(connect: Connect) -> Manager:
    return Manager(connect())


def publish(peer: Peer, topic: str, count: int) -> None:
    bodies = [encoded(nth, properties={"colour": "red"}) for nth in range(count)]
    peer.sender(topic).publish_data(bodies)


def made(manager: Manager, topic: str, **policy: object) -> str:
    """An operator's subscription with a selector."""
    said = {"topic": topic, "selector": "colour = 'red'"}
    manager.done("CREATE", "subscription", f"global/{topic}", **said, policy=policy or None)
    return f"global/{topic}"


def test_a_consumer_that_says_no_selector_does_not_drop_what_an_operator_keeps(
    connect: Connect, manager: Manager, topic: str, gateway: Gateway
) -> None:
    """It is refused with a sentence that says what to do, also after others have come and gone."""
    key, peer = made(manager, topic), connect()
    publish(peer, topic, 50)
    link = peer.shared_durable(topic, f"{topic}|global", opened=False)
    assert peer.amqp_error(link) == "amqp:precondition-failed"
    for other in (selector("colour = 'blue'"), None):
        link = peer.shared_durable(topic, f"{topic}|global", filters=other, opened=False)
        peer.until(lambda link=link: peer.refused(link.link), "a refusal")
        assert "redefine of its policy" in link.link.remote_condition.description
        peer.amqp_error(link)
    row = manager.done("READ", "subscription", key)
    assert (row["origin"], row["selector"], row["backlog"]) == ("operator", "colour = 'red'", 50)
    same = peer.shared_durable(topic, f"{topic}|global", filters=RED)
    assert same.bodies(50) == list(range(50))
    assert not [one for one in gateway.events("subscription.redefined") if topic in str(one)]


def test_who_says_nothing_inherits_where_the_policy_says_so(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """The selector of what is there holds for him; with another one he is refused."""
    made(manager, topic, redefine="inherit")
    peer = connect()
    publish(peer, topic, 3)
    peer.sender(topic).publish_data([encoded("blue", properties={"colour": "blue"})])
    link = peer.shared_durable(topic, f"{topic}|global")
    assert link.bodies(3) == [0, 1, 2]
    assert link.nothing()
    other = selector("colour = 'blue'")
    link = peer.shared_durable(topic, f"{topic}|global2", filters=other, opened=False)
    assert peer.amqp_error(link) == "amqp:precondition-failed"


def test_a_clients_own_is_redefined_as_jms_says_and_that_is_a_warning(
    connect: Connect, manager: Manager, topic: str, gateway: Gateway
) -> None:
    """With how many messages went; a policy of its own may refuse it."""
    peer = connect()
    peer.leave(peer.shared_durable(topic, f"{topic}|global"), closed=False)
    publish(peer, topic, 20)
    peer.leave(peer.shared_durable(topic, f"{topic}|global", filters=RED), closed=False)
    event = [one for one in gateway.events("subscription.redefined") if one["topic"] == topic][-1]
    assert (event["level"], event["dropped"]) == ("warning", 20)
    assert "at_most" not in event
    publish(peer, topic, 4)
    manager.done("UPDATE", "subscription", f"global/{topic}", policy={"redefine": "refuse"})
    link = peer.shared_durable(topic, f"{topic}|global", opened=False)
    assert peer.amqp_error(link) == "amqp:precondition-failed"
    assert peer.unsubscribe(f"{topic}|global") == ""
    event = [one for one in gateway.events("subscription.deleted") if one["topic"] == topic][-1]
    assert (event["level"], event["dropped"], event["at_most"]) == ("warning", 4, True)


def test_what_drops_says_how_many_in_its_answer_and_in_its_row(
    own_gateway: Make, connect: Connect
) -> None:
    """Read and unread, held and settled; what is left isn't counted. After a restart it is still
    an operator's subscription."""
    gateway = own_gateway().start()
    peer = connect("c", port=gateway.port)
    manager = Manager(peer)
    manager.done("CREATE", "subscription", "global/s", topic="t")
    consumer = peer.shared_durable("t", "s|global")
    peer.sender("t").publish(*map(str, range(10)))
    [first] = consumer.take(1)
    consumer.confirm([first])
    held = consumer.take(2)
    assert len(held) == 2
    floor = manager.done("READ", "subscription", "global/s")["floor"]
    skipped = manager.ask("SKIP", "subscription", "global/s", to=floor + 4)
    assert skipped.body["dropped"] == 4
    assert skipped.text.endswith("; messages dropped: 4")
    back = manager.ask("REWIND", "subscription", "global/s", to=0)
    assert (back.body["dropped"], back.body["floor"]) == (0, 0)
    purged = manager.ask("PURGE", "subscription", "global/s")
    assert purged.body["dropped"] == 10
    assert manager.done("PURGE", "subscription", "global/s")["dropped"] == 0
    peer.leave(consumer, closed=False)
    peer.sender("t").publish("a", "b")
    gateway.kill()
    gateway.start()
    peer = connect("c", port=gateway.port)
    manager = Manager(peer)
    manager.done("CREATE", "queue", "q")
    peer.sender("queue://q").publish(*"abc")
    assert manager.done("READ", "subscription", "global/s")["origin"] == "operator"
    until(lambda: manager.done("READ", "subscription", "global/s")["backlog"] == 2, "a count")
    link = peer.shared_durable("t", "s|global", filters=RED, opened=False)
    assert peer.amqp_error(link) == "amqp:precondition-failed"
    deleted = manager.ask("DELETE", "queue", "q", force=True)
    assert deleted.text == "queue/q has been deleted; messages dropped: 3"
    ended = manager.ask("DELETE", "topic", "t", force=True)
    assert ended.body == {"dropped": 2}
    gateway.stop()
    for event, numbers in (("rewound", [4]), ("purged", [10]), ("deleted", [3, 2])):
        found = gateway.events(f"subscription.{event}")
        assert [one["dropped"] for one in found if one["level"] == "warning"] == numbers
    rows = DeltaTable(gateway.home / "tables" / "topic_log").to_pyarrow_table(
        filters=[("record", "=", "subscription")]
    )
    said = sorted(rows.to_pylist(), key=lambda row: row["group"])
    assert [
        (row["event"], row["origin"], row["dropped"])
        for row in said
        if row["subscription"] == "global/s"
    ] == [
        ("created", "operator", 0),
        ("rewound", "operator", 4),
        ("rewound", "operator", 0),
        ("purged", "operator", 10),
        ("purged", "operator", 0),
        ("deleted", "operator", 2),
    ]
    assert {row["created_by"] for row in said} == {"anonymous"}
