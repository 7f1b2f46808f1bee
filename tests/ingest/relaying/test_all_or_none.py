"""A subscription is in all of its topic's logs or in none: where one owner refuses a consumer, or
doesn't answer, the others keep no subscription that they have made for it, and change none."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_fleet import PARTITIONED, Trio
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway, until

from distributary.pipeline.lake.placement import Placement, Rule

SETTINGS = {
    "amqp": {"subscriptions_max": 1, "subscriptions_of_client_id_max": 1},
    "owner": {"lease_ms": 60_000},  # a paused owner doesn't count as lost
    "fleet": {"owner_wait_ms": 1_000},
}
TOPIC, NAME = "hot.news", "container/refused/mine"


@pytest.fixture
def trio(tmp_path: Path, own_gateway: Callable[..., Gateway]) -> Iterator[Trio]:
    """`alone` is in the last log of three in which the topic is."""
    rules = (Rule("alone", ("prices",)), *PARTITIONED.rules)
    placement = Placement(1, PARTITIONED.logs, rules)
    assert placement.logs_of(TOPIC)[-1] == "prices"
    with Trio(tmp_path, own_gateway, SETTINGS, placement) as trio:
        yield trio


def logs_with(manager: Manager) -> list[str]:
    """The logs that have the subscription."""
    rows = manager.done("QUERY", "subscription", attributeNames=["name", "log"])["results"]
    return sorted(log for name, log in rows if name == NAME)


def test_a_refused_consumer_leaves_no_subscription(trio: Trio, connect: Connect) -> None:
    manager = Manager(connect("asks", port=trio.main.port))
    peer = connect("refused", port=trio.main.port)
    full = peer.durable("alone", "full")
    late = peer.durable(TOPIC, "mine", opened=False)
    assert peer.amqp_error(late) == "amqp:resource-limit-exceeded"
    until(lambda: logs_with(manager) == [], "no log has it", every=0.1)
    peer.leave(full, closed=True)
    mine = peer.durable(TOPIC, "mine")
    assert logs_with(manager) == sorted(trio.all)
    peer.sender(TOPIC).publish_data([encoded(n, id=f"m{n}") for n in range(30)])
    assert len(mine.take(10)) == 10
    peer.leave(mine, closed=False)
    # A subscription of before stays, whichever owner refuses its consumer.
    manager.done("UPDATE", "subscription", NAME, log="prices", policy={"consumers_max": 1})
    held = connect("refused", port=trio.all["prices"].port).durable(TOPIC, "mine")
    other = peer.durable(TOPIC, "mine", opened=False)
    assert peer.amqp_error(other) == "amqp:resource-locked"
    assert logs_with(manager) == sorted(trio.all)
    assert len(held.take(30)) == 30


def test_an_owner_that_does_not_answer_leaves_none(trio: Trio, connect: Connect) -> None:
    manager = Manager(connect("asks", port=trio.main.port))
    peer = connect("refused", port=trio.main.port)
    warm = peer.sender("hot.warm")
    warm.publish_data([encoded(n, id=f"m{n}") for n in range(30)])  # all owners are connected
    prices = trio.all["prices"].process
    assert prices is not None
    prices.send_signal(signal.SIGSTOP)
    try:
        late = peer.durable(TOPIC, "mine", opened=False)
        assert peer.amqp_error(late) == "amqp:link:detach-forced"
    finally:
        prices.send_signal(signal.SIGCONT)
    until(lambda: logs_with(manager) == [], "no log has it", every=0.1)
    peer.durable(TOPIC, "mine")
    assert logs_with(manager) == sorted(trio.all)


OTHER = "kind = 'other'"


def with_backlog(trio: Trio, peer: Peer) -> None:
    """The subscription has messages in each log, and no consumer."""
    peer.leave(peer.durable(TOPIC, "mine"), closed=False)
    peer.sender(TOPIC).publish_data([encoded(n, id=f"m{n}") for n in range(30)])


def definitions(manager: Manager) -> set[str | None]:
    """The selectors that its parts have."""
    rows = manager.done("QUERY", "subscription", attributeNames=["name", "selector"])["results"]
    return {text for name, text in rows if name == NAME}


def test_a_refused_redefinition_drops_no_backlog(trio: Trio, connect: Connect) -> None:
    manager = Manager(connect("asks", port=trio.main.port))
    peer = connect("refused", port=trio.main.port)
    with_backlog(trio, peer)
    manager.done("UPDATE", "subscription", NAME, log="prices", policy={"redefine": "refuse"})
    for _ in range(2):  # the link's name is free again
        refused = peer.durable(TOPIC, "mine", filters=selector(OTHER), opened=False)
        assert peer.amqp_error(refused) == "amqp:precondition-failed"
    assert definitions(manager) == {None}
    mine = peer.durable(TOPIC, "mine")
    assert len(mine.take(30)) == 30
    peer.leave(mine, closed=False)
    manager.done("UPDATE", "subscription", NAME, policy={"redefine": "replace"})
    changed = peer.durable(TOPIC, "mine", filters=selector(OTHER))
    assert definitions(manager) == {OTHER}
    assert logs_with(manager) == sorted(trio.all)
    data = [encoded(n, id=f"n{n}", properties={"kind": "other"}) for n in range(9)]
    peer.sender(TOPIC).publish_data(data)
    assert len(changed.take(9)) == 9, "what waited was dropped, and new messages come"


def test_a_redefinition_that_an_owner_does_not_answer_drops_none(
    trio: Trio, connect: Connect
) -> None:
    peer = connect("refused", port=trio.main.port)
    with_backlog(trio, peer)
    prices = trio.all["prices"].process
    assert prices is not None
    prices.send_signal(signal.SIGSTOP)
    try:
        late = peer.durable(TOPIC, "mine", filters=selector(OTHER), opened=False)
        assert peer.amqp_error(late) == "amqp:link:detach-forced"
    finally:
        prices.send_signal(signal.SIGCONT)
    assert len(peer.durable(TOPIC, "mine").take(30)) == 30
