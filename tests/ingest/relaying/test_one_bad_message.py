"""Messages name their topics, and one of them goes to a log that takes nothing: that one is
rejected, as one is by a gateway whose own log doesn't take it, and the link goes on."""

import signal
from collections.abc import Callable
from pathlib import Path

from gateway_fields import make
from gateway_fleet import Fleet
from gateway_jms import Jms
from gateway_links import Outgoing, encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from gateway_transactions import Transacted, condition_of, transacted
from proton import Delivery

from tests.ingest.relaying.test_relay_metrics import shown

Make = Callable[..., Gateway]
SHORT = {"fleet": {"owner_wait_ms": 1_000}}
FORCED = "amqp:link:detach-forced"
GONE, TOO_MANY = "temp-queue://none-7/theirs", "temp-queue://none-8/theirs"


def sent(relay: Outgoing, address: str, body: str = "one") -> Delivery:
    relay.peer.until(lambda: relay.link.credit > 0, "credit")
    return relay.send(encoded(body, address=address))


def taken(relay: Outgoing, address: str) -> bool:
    return relay.outcome(sent(relay, address)) == Delivery.ACCEPTED


def why(relay: Outgoing, delivery: Delivery) -> tuple[str, str]:
    """The error with which a message was rejected."""
    assert relay.outcome(delivery) == Delivery.REJECTED
    said = delivery.remote.condition
    return said.name, said.description


def posted(session: Transacted, relay: int, address: str) -> int:
    """A message in the transaction; its delivery-id."""
    state = make("transactional-state", txn_id=session.id)
    return session.transfer(relay, encoded("coin", address=address), state=state)


def test_a_log_that_is_away(tmp_path: Path, own_gateway: Make, connect: Connect) -> None:
    """Its message is rejected when its time is over, others aren't; later ones go there again."""
    with Fleet(tmp_path, own_gateway, SHORT) as fleet:
        relay = connect(port=fleet.main.port).sender(None)
        assert taken(relay, "orders.first")
        fleet.orders.kill()
        for _ in range(2):
            waits = sent(relay, "orders.away")
            assert taken(relay, "own.there")
            assert not waits.settled
            condition, text = why(relay, waits)
            assert condition == FORCED
            assert "fleet.owner_wait_ms" in text
        fleet.orders.start()
        assert taken(relay, "orders.back")
        assert relay.peer.leave(relay, closed=True) == ""


def test_the_credit_comes_back(tmp_path: Path, own_gateway: Make, connect: Connect) -> None:
    """As many as the link may send ahead are rejected, and it sends on."""
    settings = {**SHORT, "amqp": {"producer_credit": 3}}
    with Fleet(tmp_path, own_gateway, settings) as fleet:
        fleet.orders.kill()
        relay = connect(port=fleet.main.port).sender(None)
        for _ in range(2):
            waits = [sent(relay, "orders.away") for _ in range(3)]
            assert {why(relay, one)[0] for one in waits} == {FORCED}
        assert taken(relay, "own.there")


def test_a_gateway_that_is_gone(tmp_path: Path) -> None:
    """Or more of those than a client may have links to."""
    settings = {"fleet": {"member_ms": 500, "private_logs_max": 1}}
    with shown(tmp_path, settings) as (_, main), Peer(main.port) as peer:
        relay = peer.sender(None)
        gone = sent(relay, GONE)
        too_many = sent(relay, TOO_MANY)
        assert why(relay, too_many)[0] == "amqp:resource-limit-exceeded"
        condition, text = why(relay, gone)
        assert (condition, text) == (
            "amqp:not-found",
            "there is no gateway of the log 'none-7' any more",
        )
        assert taken(relay, "own.there")
        assert taken(relay, "orders.there")
        main.await_metric(1, "relayed_links", log="orders")
        assert not [one for one in main.metrics() if "none-" in str(one)]


def test_what_an_owner_may_have_written_is_not_rejected(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """It was sent to an owner that was lost with its outcome: the link ends, as that is unknown."""
    with Fleet(tmp_path, own_gateway, SHORT) as fleet:
        relay = connect(port=fleet.main.port).sender(None)
        assert taken(relay, "orders.first")
        fleet.orders.process.send_signal(signal.SIGSTOP)
        in_doubt = sent(relay, "orders.second")
        assert taken(relay, "own.there")
        fleet.orders.kill()
        assert relay.peer.amqp_error(relay) == FORCED
        assert not in_doubt.remote_state


def test_a_transaction_can_only_be_rolled_back(tmp_path: Path, own_gateway: Make) -> None:
    """The next one of the same link is done."""
    settings = {"fleet": {"owner_wait_ms": 1_000, "member_ms": 500, "private_logs_max": 1}}
    with Fleet(tmp_path, own_gateway, settings) as fleet, Jms(fleet.main.port) as jms:
        session = transacted(jms)
        relay = session.producer(None)
        own = posted(session, relay, "own.to")
        assert condition_of(session.answer(own)) == ""
        gone, too_many = posted(session, relay, GONE), posted(session, relay, TOO_MANY)
        assert condition_of(session.answer(too_many)) == "amqp:resource-limit-exceeded"
        assert condition_of(session.answer(gone)) == "amqp:not-found"
        assert session.commit() == "amqp:not-found"
        own = posted(session, relay, "own.to")
        assert condition_of(session.answer(own)) == ""
        assert session.commit() == ""
