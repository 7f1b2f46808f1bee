"""Traces of what goes through transactions, and to consumers that take sequences and no bytes."""

from collections.abc import Iterator

import pytest
from gateway_collector import Collector, Seen
from gateway_fields import make
from gateway_http import ShownGateway
from gateway_jms import QUEUE, Jms, source
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Peer
from gateway_transactions import Transacted, transacted

PARENT = "00f067aa0ba902b7"
ONE, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "1bf92f3577b34da6a3ce929d0e0e4731"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, collector: Collector
) -> Iterator[ShownGateway]:
    settings = {"traces": {"endpoint": collector.endpoint}, "commit": {"interval_ms": 50}}
    with ShownGateway(tmp_path_factory.mktemp("traced"), settings) as running:
        yield running
        running.stop()


def sampled(trace: str, body: str) -> bytes:
    """A message of that trace."""
    return encoded(body, properties={"traceparent": f"00-{trace}-{PARENT}-01"})


def post(session: Transacted, handle: int, message: bytes) -> None:
    """Send it in the transaction."""
    session.transfer(handle, message, state=make("transactional-state", txn_id=session.id))


def named(spans: list[Seen], name: str) -> list[Seen]:
    return [one for one in spans if one.name.startswith(f"{name} ")]


def test_a_message_of_a_transaction_is_traced_from_its_commit_on(
    gateway: ShownGateway, collector: Collector
) -> None:
    """Posted and committed it is published and delivered; retired and committed it is settled.
    What is rolled back was never published; what is retired and rolled back isn't settled so."""
    with Jms(gateway.port) as jms:
        session = transacted(jms)
        to = session.producer("work", QUEUE)
        post(session, to, sampled(OTHER, "never was"))
        assert session.roll_back() == ""
        post(session, to, sampled(ONE, "was"))
        assert session.commit() == ""
        [published] = collector.await_spans(1, ONE)
        assert (published.name, published.parent_id) == ("publish queue://work", PARENT)
        session.consumer("taker", source("work", QUEUE), 1)
        [work] = session.transfers(1)
        session.retire(work)
        assert session.commit() == ""
        spans = collector.await_spans(3, ONE)
    [delivered], [settled] = named(spans, "deliver"), named(spans, "settle")
    assert delivered.parent_id == published.span_id
    assert settled.parent_id == delivered.span_id
    assert settled.says("outcome") == "accepted"
    assert published.ended <= delivered.began <= settled.began <= settled.ended
    assert OTHER not in {one.trace_id for one in collector.await_spans(3)}


def test_what_is_retired_and_rolled_back_is_delivered_again(
    gateway: ShownGateway, collector: Collector
) -> None:
    """The first delivery ends when the second one begins, which links to it."""
    trace = ONE[::-1]
    with Jms(gateway.port) as jms:
        session = transacted(jms)
        post(session, session.producer("again", QUEUE), sampled(trace, "twice"))
        assert session.commit() == ""
        session.consumer("taker", source("again", QUEUE), 1)
        [work] = session.transfers(1)
        session.retire(work)
        assert session.roll_back() == ""
        session.jms.credit(1, handle=session.links, channel=session.channel, count=1)
        [work] = session.transfers(1)
        session.retire(work)
        assert session.commit() == ""
        spans = collector.await_spans(5, trace)
    first, second = sorted(named(spans, "deliver"), key=lambda one: one.began)
    assert second.links == (first.span_id,)
    assert first.ended <= second.began
    [accepted] = [one for one in named(spans, "settle") if one.says("outcome") == "accepted"]
    assert accepted.parent_id == second.span_id


def test_what_a_lease_takes_is_delivered_and_settled(
    gateway: ShownGateway, collector: Collector
) -> None:
    """A Spark query's way: sequences are acquired, rows are read elsewhere, a request settles."""
    trace = "a" * 32
    with Peer(gateway.port, "job") as peer:
        peer.leave(peer.shared_durable("lake", "lease|global"), closed=False)
        peer.sender("lake").publish_data([sampled(trace, "row")])
        manager, name = Manager(peer), "global/lease"
        asked = {"holder": "h", "max": 10, "wait_ms": 5_000}
        body = manager.done("ACQUIRE", "subscription", name, **asked, keep="")
        [taken] = body["acquired"].values()
        done = manager.done("SETTLE", "subscription", name, holder="h", sequences=taken)
        assert done["settled"] == 1
        spans = collector.await_spans(3, trace)
    [published] = named(spans, "publish")
    [delivered], [settled] = named(spans, "deliver"), named(spans, "settle")
    assert (delivered.parent_id, settled.parent_id) == (published.span_id, delivered.span_id)
    assert delivered.attributes["messaging.destination.subscription.name"] == "global/lease"
    assert settled.says("outcome") == "accepted"
