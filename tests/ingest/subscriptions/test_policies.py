"""Policies by patterns, over real links: what they say holds, also when the file changes."""

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from proton import Delivery

Make = Callable[..., Gateway]
LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"


def ruled(own_gateway: Make, file: Path, written: str) -> Gateway:
    """A gateway that reads its policies from the file."""
    file.write_text(written)
    return own_gateway({"delivery": {"policies": str(file)}}).start()


def one_too_many(peer: Peer, address: str) -> None:
    """A consumer that is refused with a sentence that says why; its connection goes on."""
    link = peer.receiver(address, capabilities=("queue",), opened=False)
    peer.until(partial(peer.refused, link.link), "a refusal")
    said = link.link.remote_condition.description
    assert "queue/" in said
    assert "consumers_max" in said
    assert peer.amqp_error(link) == LIMIT_EXCEEDED
    peer.heard()


def test_a_subscription_has_so_many_consumers_and_no_more(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """A further consumer is refused until a place is free; browsers take none."""
    gateway = ruled(
        own_gateway,
        tmp_path / "policies.toml",
        '[[subscription]]\nmatch = "queue/few*"\nconsumers_max = 2\n',
    )
    peer, other = connect(port=gateway.port), connect(port=gateway.port)
    first = peer.receiver("queue://few.a", capabilities=("queue",))
    other.receiver("queue://few.a", capabilities=("queue",))
    one_too_many(peer, "queue://few.a")
    peer.receiver("queue://few.a", capabilities=("queue",), copy=True)
    peer.leave(first, closed=True)
    other.receiver("queue://few.a", capabilities=("queue",))
    one_too_many(peer, "queue://few.a")
    for _ in range(3):
        peer.receiver("queue://many", capabilities=("queue",))


def test_a_changed_file_holds_at_once_and_a_broken_one_changes_nothing(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """It is said once what is wrong with it, and the old one holds."""
    file = tmp_path / "policies.toml"
    gateway = ruled(own_gateway, file, "")
    peer = connect(port=gateway.port)
    for _ in range(2):
        peer.receiver("queue://q", capabilities=("queue",))
    file.write_text('[[subscription]]\nmatch = "queue/q"\nconsumers_max = 2\n')
    gateway.await_event("policies.reloaded")
    one_too_many(peer, "queue://q")
    file.write_text('[[subscription]]\nmatch = "queue/q"\nconsumers = 9\n')
    kept = gateway.await_event("policies.kept")
    assert "[[subscription]] 'queue/q': unknown key 'consumers'" in str(kept["reason"])
    one_too_many(peer, "queue://q")
    file.unlink()
    assert "can't be read" in str(gateway.await_event("policies.kept", 2)["reason"])
    file.write_text("")
    gateway.await_event("policies.reloaded", 2)
    peer.receiver("queue://q", capabilities=("queue",))
    assert gateway.process is not None
    os.kill(gateway.process.pid, signal.SIGHUP)
    gateway.await_event("policies.reloaded", 3)
    assert len(gateway.events("policies.kept")) == 2


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("[[subscription]]\nconsumers_max = 2", "number 1 must say what it is for"),
        ("[[subscription", "policies file"),
        ('[[topic]]\nmatch = "x"\nbacklog_overflow = "burst"', "backlog_overflow is 'burst'"),
        ('[[topic]]\nmatch = "x"\nroutes = "queue://y.#"', "'queue://y.#' has wildcards"),
    ],
)
def test_a_file_that_can_not_be_used_stops_the_start(
    own_gateway: Make, tmp_path: Path, written: str, says: str
) -> None:
    """In one sentence that names the file."""
    file = tmp_path / "policies.toml"
    file.write_text(written)
    gateway = own_gateway({"delivery": {"policies": str(file)}})
    gateway.spawn()
    gateway.ended(2)
    assert str(file) in gateway.log
    assert says in gateway.log


@pytest.mark.parametrize("by", ["request", "file"])
def test_who_may_have_what_waits_by_a_new_policy_gets_it_at_once(
    own_gateway: Make, connect: Connect, tmp_path: Path, by: str
) -> None:
    """Nothing else happens on the queue: the only active consumer asks for nothing, until all are
    active."""
    file = tmp_path / "policies.toml"
    gateway = ruled(
        own_gateway, file, '[[subscription]]\nmatch = "queue/q"\nsingle_active = true\n'
    )
    peer, manager = connect(port=gateway.port), Manager(connect(port=gateway.port))
    peer.receiver("queue://q", capabilities=("queue",))
    other = peer.receiver("queue://q", capabilities=("queue",))
    peer.sender("queue://q", capabilities=("queue",)).publish("waits")
    other.link.flow(1)
    peer.heard()
    if by == "request":
        manager.done("UPDATE", "queue", "q", policy={"single_active": False})
    else:
        file.write_text("")
        gateway.await_event("policies.reloaded")
    assert [got.body for got in other.take(credit=False)] == ["waits"]


def test_a_start_by_other_settings_takes_the_policies_in_the_log(
    own_gateway: Make, connect: Connect
) -> None:
    """A new default that contradicts a subscription's own policy, such as a standby's or those of a
    machine that a backup was restored on, is no reason not to start: the maximum holds."""
    with own_gateway() as gateway:
        manager = Manager(connect(port=gateway.port))
        manager.done("CREATE", "queue", "q", policy={"redelivery_delay_ms": 20_000})
        gateway.stop()
        lower = "[subscription]\nredelivery_delay_ms_max = 1\n"
        gateway.config.write_text(gateway.config.read_text() + lower)
        gateway.start()
        peer = connect(port=gateway.port)
        peer.sender("queue://q", capabilities=("queue",)).publish("again")
        consumer = peer.receiver("queue://q", capabilities=("queue",))
        taken = consumer.take()
        taken[0].delivery.local.failed = True
        consumer.confirm(taken, Delivery.MODIFIED)
        assert consumer.bodies() == ["again"]


def test_a_policy_whose_dead_letters_go_to_a_name_with_wildcards_can_be_changed(
    own_gateway: Make, connect: Connect
) -> None:
    """The name had none when the policy was given, by another style of patterns."""
    former = {"dead_letter_address": "dead.>"}
    with own_gateway({"delivery": {"pattern_style": "artemis"}}) as gateway:
        manager = Manager(connect(port=gateway.port))
        manager.done("CREATE", "queue", "q", policy=former)
        gateway.stop()
        gateway.config.write_text(gateway.config.read_text().replace("artemis", "classic"))
        gateway.start()
        manager = Manager(connect(port=gateway.port))
        manager.done("UPDATE", "queue", "q", policy={**former, "lock_ms": 30_000})
        other = {"dead_letter_address": "other.>"}
        assert "has wildcards" in manager.refused(400, "UPDATE", "queue", "q", policy=other)
        manager.done("UPDATE", "queue", "q", policy={"lock_ms": 30_000})
        assert "has wildcards" in manager.refused(400, "UPDATE", "queue", "q", policy=former)
