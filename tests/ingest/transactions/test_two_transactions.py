"""A delivery has one outcome: one that is given in a second transaction can't be committed."""

from collections.abc import Iterator

import pytest
from gateway_fields import make
from gateway_frames import Frame
from gateway_jms import Jms
from gateway_peer import Connect
from gateway_process import Gateway
from gateway_transactions import Transacted, condition_of, transacted


@pytest.fixture
def session(gateway: Gateway) -> Iterator[Transacted]:
    with Jms(gateway.port) as jms:
        yield transacted(jms)


def delivered(session: Transacted, connect: Connect, topic: str) -> Frame:
    """A message of a queue that came to the session."""
    connect().sender(f"queue://{topic}").publish("x")
    session.consumer("C", make("source", address=f"queue://{topic}"), 10)
    [one] = session.transfers(1)
    return one


def end(session: Transacted, of: bytes, *, fail: bool = False) -> str:
    return condition_of(session.answer(session.send_discharge(fail=fail, of=of)))


@pytest.mark.parametrize("fail", [True, False])
def test_a_delivery_is_retired_in_one_transaction(
    session: Transacted, connect: Connect, topic: str, *, fail: bool
) -> None:
    """In the first one; the commit of the second is refused, before the first one's end."""
    first, one = session.id, delivered(session, connect, topic)
    second = session.declare()
    session.retire(one, of=first, settled=False)
    session.jms.session()  # it has been read
    session.retire(one, of=second, settled=False)
    assert end(session, second) == "amqp:illegal-state"
    assert end(session, first, fail=fail) == ""
    session.jms.session()
    if fail:  # it is the consumer's again, which may give it another outcome
        session.retire(one, of=(third := session.declare()))
        assert end(session, third) == ""
    assert connect().receiver(topic, capabilities=("queue",)).nothing()


def test_an_outcome_may_be_said_again_in_its_transaction(
    session: Transacted, connect: Connect, topic: str
) -> None:
    one = delivered(session, connect, topic)
    for settled in (False, False, True):
        session.retire(one, settled=settled)
        session.jms.session()
    assert end(session, session.id) == ""
    assert connect().receiver(topic, capabilities=("queue",)).nothing()
