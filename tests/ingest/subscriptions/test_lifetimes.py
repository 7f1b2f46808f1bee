"""A durable subscription ends by itself: its link, its session, its connection, and so long after
that. A Proton client says it by its source's expiry policy and time-out."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway, cpu_seconds, until
from proton import Endpoint, Terminus

from distributary.pipeline.model.subscription import SubscriptionKey

Make = Callable[..., Gateway]

LINK, SESSION = Terminus.EXPIRE_WITH_LINK, Terminus.EXPIRE_WITH_SESSION
CONNECTION, NEVER = Terminus.EXPIRE_WITH_CONNECTION, Terminus.EXPIRE_NEVER
#: What ends, after what it ends a subscription of each lifetime: at once, or (False) not at all.
ENDS = {
    "detach": {LINK},
    "session": {LINK, SESSION},
    "connection": {LINK, SESSION, CONNECTION},
    "socket": {LINK, SESSION, CONNECTION},
    "close": {LINK, SESSION, CONNECTION, NEVER},
}
LONG = 3_600


class Watch:
    """Asks the node, by a connection of its own, whether a subscription is there."""

    def __init__(self, connect: Connect, port: int | None = None) -> None:
        self._manager = Manager(connect(port=port))

    def policy(self, id_: str) -> object:
        return self._manager.done("READ", "subscription", id_)["policy"]

    def there(self, id_: str) -> bool:
        return self._manager.ask("READ", "subscription", id_).status == 200

    def gone(self, id_: str) -> None:
        until(lambda: not self.there(id_), f"the end of {id_}", every=0.02)


def id_of(container: str) -> str:
    return SubscriptionKey(container, "s", durable=True).id


def deleted(gateway: Gateway, id_: str) -> dict[str, object]:
    """The event in the log of the subscription's end."""
    events = gateway.events("subscription.deleted")
    return next((event for event in events if event["subscription"] == id_), {})


def end(peer: Peer, link: object, session: object, what: str) -> None:
    """Detach the link, or end what has it."""
    match what:
        case "detach" | "close":
            assert peer.leave(link, closed=what == "close") == ""
        case "session":
            session.close()
            peer.until(lambda: session.state & Endpoint.REMOTE_CLOSED, "a session's end")
        case "connection":
            peer.close()
        case _:
            peer.drop()


@pytest.mark.parametrize("what", ENDS)
@pytest.mark.parametrize("lifetime", [LINK, SESSION, CONNECTION, NEVER])
def test_each_lifetime_ends_with_its_own(
    gateway: Gateway, connect: Connect, topic: str, lifetime: int, what: str
) -> None:
    """It ends at once: a request after the end's answer finds nothing. No lesser end does so."""
    watch, peer = Watch(connect), connect(topic)
    session = peer.new_session()
    link = peer.durable(topic, "s", session=session, expiry=lifetime)
    source = link.link.remote_source
    assert (source.expiry_policy, source.timeout) == (lifetime, 0)
    id_ = id_of(topic)
    assert watch.there(id_)
    end(peer, link, session, what)
    if lifetime not in ENDS[what]:
        time.sleep(1.5)  # the stimulus: looks are a second apart, nothing shows them
        assert watch.there(id_)
    elif what == "socket":
        watch.gone(id_)
    else:
        assert not watch.there(id_)


@pytest.mark.parametrize(("lifetime", "what"), [(LINK, "detach"), (SESSION, "session")])
def test_a_time_out_begins_with_the_end(
    gateway: Gateway, connect: Connect, topic: str, lifetime: int, what: str
) -> None:
    """Not before it the subscription ends, with what it was owed, as the answer has said."""
    watch, peer, id_ = Watch(connect), connect(topic), id_of(topic)
    session = peer.new_session()
    link = peer.durable(topic, "s", session=session, expiry=lifetime, timeout=2)
    assert link.link.remote_source.timeout == 2
    peer.sender(topic).publish("for nobody")
    time.sleep(2.5)  # the stimulus: longer than the time-out, which mustn't have begun
    assert watch.there(id_)
    ended = time.monotonic()
    end(peer, link, session, what)
    assert watch.there(id_)
    watch.gone(id_)
    assert time.monotonic() - ended >= 2
    said = until(lambda: deleted(gateway, id_), "a line of the log")
    assert (said["dropped"], said.get("by")) == (1, None)
    assert peer.durable(topic, "s").drain(1) == 0


@pytest.mark.parametrize("lifetime", [LINK, SESSION, CONNECTION])
def test_who_resumes_in_time_finds_what_it_was_owed(
    gateway: Gateway, connect: Connect, topic: str, lifetime: int
) -> None:
    """From another connection, too; then the clock stands until that one's end."""
    peer, id_ = connect(topic), id_of(topic)
    peer.durable(topic, "s", expiry=lifetime, timeout=2)
    peer.drop()
    other = connect(topic)
    other.sender(topic).publish("kept")
    again = other.durable(topic, "s")  # what it asks for doesn't matter: it holds what held
    source = again.link.remote_source
    assert (source.expiry_policy, source.timeout) == (lifetime, 2)
    time.sleep(3.5)  # the stimulus: longer than the time-out and a look, while its clock stands
    assert again.bodies(1) == ["kept"]
    watch = Watch(connect)
    assert watch.there(id_)
    other.close()
    assert watch.there(id_)
    watch.gone(id_)


@pytest.mark.parametrize("lifetime", [LINK, SESSION, CONNECTION])
def test_a_shared_one_ends_after_its_last(
    gateway: Gateway, connect: Connect, topic: str, lifetime: int
) -> None:
    """Links in two sessions and connections: the first end ends nothing."""
    watch, id_ = Watch(connect), id_of(topic)
    first, second = connect(topic), connect(topic)
    first.shared_durable(topic, "s", expiry=lifetime)
    link = second.shared_durable(topic, "s|2", expiry=lifetime)
    first.close()
    time.sleep(1.5)  # the stimulus: looks are a second apart, nothing shows them
    assert watch.there(id_)
    second.sender(topic).publish("still")
    assert link.bodies(1) == ["still"]
    second.drop()
    watch.gone(id_)


def test_a_lookup_hears_the_lifetime_and_unsubscribe_ends_it(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    watch, peer, id_ = Watch(connect), connect(topic), id_of(topic)
    link = peer.durable(topic, "s", expiry=CONNECTION, timeout=LONG)
    assert peer.leave(link, closed=False) == ""
    lookup = peer.receiver(None, "s")
    source = lookup.link.remote_source
    assert (source.expiry_policy, source.timeout) == (CONNECTION, LONG)
    assert peer.leave(lookup, closed=True) == ""
    assert not watch.there(id_)


@pytest.mark.parametrize("stop", ["stopped", "killed"])
@pytest.mark.parametrize("lifetime", [LINK, SESSION, CONNECTION])
def test_the_clock_begins_anew_with_the_gateway(
    own_gateway: Make, connect: Connect, stop: str, lifetime: int
) -> None:
    """Its links are gone then. What was resumed by the end of its time stays; an end is durable."""
    gateway = own_gateway().start()
    peer = connect("c", port=gateway.port)
    for name in ("away", "resumed"):
        peer.durable("t", name, expiry=lifetime, timeout=3)
    peer.durable("t", "at once", expiry=lifetime)
    peer.durable("t", "long", expiry=lifetime, timeout=LONG)
    peer.sender("t").publish("kept")
    if stop == "killed":
        gateway.kill()
    else:
        gateway.stop()
    peer.drop()
    started = time.monotonic()
    gateway.start()
    watch, peer = Watch(connect, gateway.port), connect("c", port=gateway.port)
    resumed = peer.durable("t", "resumed")
    watch.gone("container/c/at once")
    assert watch.there("container/c/away")
    watch.gone("container/c/away")
    assert time.monotonic() - started >= 2.99
    assert resumed.bodies(1) == ["kept"]
    gateway.kill()
    gateway.start()
    watch = Watch(connect, gateway.port)
    found = {name: watch.there(f"container/c/{name}") for name in ("away", "at once", "long")}
    assert found == {"away": False, "at once": False, "long": True}


def test_operators_see_and_set_it(own_gateway: Make, connect: Connect, tmp_path: Path) -> None:
    """Operators set expiry by patterns, for subscriptions whose client says none, and for each
    single one."""
    file = tmp_path / "policies.toml"
    file.write_text(
        '[[subscription]]\nmatch = "container/*"\nexpiry = "link-detach"\nexpiry_seconds = 3600\n'
    )
    gateway = own_gateway({"delivery": {"policies": str(file)}}).start()
    watch, peer = Watch(connect, gateway.port), connect("c", port=gateway.port)
    manager = Manager(connect(port=gateway.port))
    links = [peer.durable("t", "one"), peer.durable("t", "two", expiry=SESSION, timeout=9)]
    told = [
        (link.link.remote_source.expiry_policy, link.link.remote_source.timeout) for link in links
    ]
    assert told == [(LINK, 3600), (SESSION, 9)]
    assert watch.policy("container/c/two") == {"expiry": "session-end", "expiry_seconds": 9}
    policy = {"expiry": "link-detach", "expiry_seconds": 0}
    manager.done("UPDATE", "subscription", "container/c/two", policy=policy)
    assert watch.there("container/c/two")
    for link in links:
        peer.leave(link, closed=False)
    assert not watch.there("container/c/two")
    assert watch.there("container/c/one")
    manager.done("UPDATE", "subscription", "container/c/one", policy=policy)
    watch.gone("container/c/one")


def test_a_thousand_at_once(own_gateway: Make, connect: Connect) -> None:
    """They end together, also in the table, and other clients don't wait long for it."""
    settings = {"amqp": {"subscriptions_of_client_id_max": 5_000, "links_max": 1_024}}
    gateway = own_gateway(settings).start()
    peer = connect("c", port=gateway.port)
    links = [peer.durable("t", f"s{n}", expiry=CONNECTION, opened=False) for n in range(1_000)]
    for link in links:
        peer.attached(link.link)
    other = connect("other", port=gateway.port)
    consumer, producer = other.durable("t", "s"), other.sender("t")
    assert gateway.process is not None
    used = cpu_seconds(gateway.process.pid)
    peer.drop()
    for number in range(20):
        producer.publish(number)
        assert consumer.bodies(1) == [number]
    assert cpu_seconds(gateway.process.pid) - used < 10
    watch = Watch(connect, gateway.port)
    for number in (0, 500, 999):
        watch.gone(f"container/c/s{number}")
    until(lambda: len(gateway.events("subscription.deleted")) == 1_000, "all ends")
    gateway.stop()
    columns = ["record", "subscription", "event", "by", "policy"]
    rows = DeltaTable(gateway.home / "tables/topic_log").to_pyarrow_table(columns=columns)
    said = {}
    for row in rows.to_pylist():
        if row["record"] == "subscription" and row["subscription"] != "container/other/s":
            said.setdefault(row["event"], []).append((row["by"], row["policy"]))
    assert {event: len(some) for event, some in said.items()} == {
        "created": 1_000,
        "deleted": 1_000,
    }
    own = '{"expiry":"connection-close","expiry_seconds":0}'
    assert set(said["created"]) == {("anonymous", own)}
    assert {by or "" for by, _ in said["deleted"]} == {""}
