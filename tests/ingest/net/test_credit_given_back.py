"""A peer that sends may say that it has sent more than it did, and so give credit back. It can't
come to more credit by that, though the engine's count of it wraps around."""

import pytest
from gateway_frames import Raw, begun, frame_of, number
from gateway_jms import QUEUE, delivery, producer, text_message
from gateway_process import Gateway

#: Two steps of the most that a delivery-count can go up by, all around its numbers.
AROUND = (0x7FFFFFFF, 0xFFFFFFFE)
EXCEEDED = "amqp:link:transfer-limit-exceeded"
WINDOW = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}


def sent(count: int) -> bytes:
    """The sender's flow: it has sent so many."""
    return frame_of("flow", **WINDOW, handle=0, delivery_count=count, link_credit=0)


def opened(gateway: Gateway, name: str) -> Raw:
    raw = begun(gateway.port, name)
    raw.expect("open", "begin")
    return raw


@pytest.mark.parametrize("together", [True, False])
def test_no_credit_comes_of_a_count_that_wraps_around(
    gateway: Gateway, unharmed: None, topic: str, together: bool
) -> None:
    """A producer whose queue isn't there durably yet has no credit, and its message is dropped.
    (Once it had credit, and its message met a link that wasn't open: a bug of the gateway.)"""
    queue = f"queue://{topic}-{together}"
    frames = [producer(queue, QUEUE), *map(sent, AROUND), delivery(1, text_message("x"))]
    with opened(gateway, f"{topic}-{together}") as raw:
        for one in [b"".join(frames)] if together else frames:
            raw.send(one)
        attach, detach = raw.next(0x12), raw.next(0x16)
        assert (attach["handle"], detach.error) == (0, EXCEEDED)
        assert [one.kind for one in raw.heard() if one.kind != "flow"] == []


def test_a_producer_cannot_raise_its_own_credit(
    gateway: Gateway, unharmed: None, topic: str
) -> None:
    with opened(gateway, topic) as raw:
        raw.send(producer(topic))
        _, flow = raw.expect("attach", "flow")
        credit = number(flow["link-credit"])
        raw.send(*map(sent, AROUND), delivery(1, text_message("x")))
        assert raw.next(0x16).error == EXCEEDED
        raw.send(frame_of("detach", handle=0, closed=True), producer(topic))
        _, flow = raw.expect("attach", "flow")
        assert number(flow["link-credit"]) == credit


def test_credit_may_be_given_back(gateway: Gateway, unharmed: None, topic: str) -> None:
    """All but one of it: that one is still there, and no more."""
    with opened(gateway, topic) as raw:
        raw.send(producer(topic))
        _, flow = raw.expect("attach", "flow")
        raw.send(sent(number(flow["link-credit"]) - 1), delivery(1, text_message("x")))
        outcome = raw.next(0x15)
        assert (outcome["first"], outcome["settled"]) == (1, True)
        raw.send(sent(number(flow["link-credit"]) + 5))
        assert raw.next(0x16).error == EXCEEDED
