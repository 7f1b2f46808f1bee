"""Corners of sessions and deliveries that engines read in different ways: windows that become
smaller, deliveries that are resumed, outcomes that are given twice (AMQP 1.0 part 2, sections
2.5.6, 2.6.13 and 2.7.5; part 3, section 3.4)."""

from collections.abc import Callable

import pytest
from gateway_fields import Fields, make
from gateway_frames import ATTACH, DISPOSITION, FLOW, Frame, Raw, begun, frame_of
from gateway_links import decoded, encoded
from gateway_peer import Connect
from gateway_process import Gateway

MESSAGE = encoded("a message")


def consumer(port: int, queue: str) -> Raw:
    """A consumer of a queue, on handle 0, without credit."""
    raw = begun(port, f"{queue}-consumer")
    source = make("source", address=f"queue://{queue}")
    termini = {"source": source, "target": make("target")}
    raw.send(frame_of("attach", name="C", handle=0, role=True, **termini))
    raw.next(ATTACH)
    return raw


def flow(**given: object) -> bytes:
    window = {"next_incoming_id": 0, "incoming_window": 1 << 20}
    return frame_of("flow", **{**window, "next_outgoing_id": 0, "outgoing_window": 9, **given})


def credit(number: int, seen: int = 0, **given: object) -> bytes:
    """Credit for so many messages after those that were `seen`."""
    place = {"next_incoming_id": seen, "handle": 0, "delivery_count": seen}
    return flow(**{**place, "link_credit": number, **given})


def bodies(frames: list[Frame]) -> list[object]:
    return [decoded(one.payload).body for one in frames if one.kind == "transfer"]


@pytest.mark.parametrize("on_link", [True, False])
def test_a_window_smaller_than_what_is_on_its_way_is_closed(
    gateway: Gateway, connect: Connect, topic: str, *, on_link: bool
) -> None:
    """A peer that takes less than before may have said so before it saw what was sent: nothing more
    is sent until it has room again."""
    connect().sender(f"queue://{topic}").publish(*range(9))
    with consumer(gateway.port, topic) as raw:
        raw.send(credit(9, incoming_window=4))
        assert bodies(raw.heard()) == [0, 1, 2, 3]
        less = {"incoming_window": 2}
        raw.send(credit(9, **less) if on_link else flow(**less))
        raw.send(flow(next_incoming_id=1, incoming_window=2))
        assert bodies(raw.heard()) == []
        raw.send(credit(5, seen=4, incoming_window=2))
        assert bodies(raw.heard()) == [4, 5]
        raw.send(flow(next_incoming_id=6, incoming_window=0xFFFFFFFF))
        assert bodies(raw.heard()) == [6, 7, 8]


def test_a_smaller_window_that_nothing_has_overrun_holds(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    connect().sender(f"queue://{topic}").publish(*range(9))
    with consumer(gateway.port, topic) as raw:
        raw.send(credit(1, incoming_window=0xFFFFFFFF))
        assert bodies(raw.heard()) == [0]
        raw.send(credit(9, seen=1, incoming_window=3))
        assert bodies(raw.heard()) == [1, 2, 3]


def resumed(number: int, payload: bytes, **given: object) -> bytes:
    place = {"handle": 0, "delivery_id": number, "delivery_tag": bytes([number])}
    return frame_of("transfer", **place, message_format=0, resume=True, **given, payload=payload)


REST = make("received", section_number=0, section_offset=3)
RESUMED = {
    "whole": [resumed(0, MESSAGE)],
    "its rest": [resumed(0, MESSAGE[3:], state=REST)],
    "its outcome alone": [resumed(0, b"", state=make("accepted"))],
    "in parts": [
        resumed(0, MESSAGE[:3], more=True),
        frame_of("transfer", handle=0, more=True, payload=MESSAGE[3:5]),
        frame_of("transfer", handle=0, resume=True, payload=MESSAGE[5:]),
    ],
    "settled": [resumed(0, MESSAGE, settled=True)],
    "aborted": [resumed(0, MESSAGE[:3], more=True), resumed(0, b"", aborted=True)],
}


@pytest.mark.parametrize("kind", RESUMED)
def test_a_resumed_delivery_is_no_message(gateway: Gateway, topic: str, kind: str) -> None:
    """No delivery outlives its link: what a sender resumes isn't taken, and is given back to it;
    its credit, too. A message behind it is one."""
    with begun(gateway.port, f"{topic}-producer") as raw:
        termini = {"source": make("source"), "target": make("target", address=f"queue://{topic}")}
        attach = {"name": "P", "handle": 0, "role": False, "initial_delivery_count": 0}
        raw.send(frame_of("attach", **attach, **termini))
        granted = raw.next(FLOW)["link-credit"]
        raw.send(*RESUMED[kind])
        place = {"handle": 0, "delivery_id": 1, "delivery_tag": b"next"}
        raw.send(frame_of("transfer", **place, message_format=0, payload=encoded("next")))
        answers = answered(raw, 1)
        raw.send(flow(handle=0, delivery_count=2, link_credit=0, echo=True))
        assert raw.next(FLOW)["link-credit"] == granted
    told = ["accepted"] if kind in ("settled", "aborted") else ["released", "accepted"]
    assert [answers[one] for one in sorted(answers)] == told
    with consumer(gateway.port, topic) as raw:
        raw.send(credit(9))
        assert bodies(raw.heard()) == ["next"]


def answered(raw: Raw, last: int) -> dict[int, str]:
    """The outcomes of deliveries, by their ids, until the last one has its own."""
    found: dict[int, str] = {}
    while last not in found:
        one = raw.next(DISPOSITION)
        state = one["state"]
        if isinstance(state, Fields):
            found |= dict.fromkeys(
                range(one["first"], (one["last"] or one["first"]) + 1), state.kind
            )
    return found


def outcome(state: object, number: int = 0) -> bytes:
    """An outcome that its receiver leaves unsettled."""
    return frame_of("disposition", role=True, first=number, settled=False, state=state)


@pytest.mark.parametrize("failed", [True, False])
@pytest.mark.parametrize("undeliverable", [True, False])
def test_an_outcome_is_answered_with_its_fields(
    gateway: Gateway, connect: Connect, topic: str, *, failed: bool, undeliverable: bool
) -> None:
    connect().sender(f"queue://{topic}").publish("x")
    with consumer(gateway.port, topic) as raw:
        raw.send(credit(1))
        assert bodies(raw.heard()) == ["x"]
        raw.send(
            outcome(make("modified", delivery_failed=failed, undeliverable_here=undeliverable))
        )
        answer = raw.next(DISPOSITION)
        assert (answer["settled"], answer["state"].kind) == (True, "modified")
        said = [answer["state"][name] for name in ("delivery-failed", "undeliverable-here")]
        assert said == [failed, undeliverable]


def test_an_outcome_given_twice_is_answered_as_it_is_recorded(
    own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    """The first one is on its way to the disk when the second comes: it is final."""
    with own_gateway({"journal": {"linger_ms": 1_000}}) as gateway:
        connect(port=gateway.port).sender("queue://twice").publish("x")
        with consumer(gateway.port, "twice") as raw:
            raw.send(credit(9))
            assert bodies(raw.heard()) == ["x"]
            raw.send(outcome(make("accepted")))
            came = raw.heard()
            raw.send(outcome(make("released")))
            came += raw.heard()
            said = [one for one in came if one.kind == "disposition"] or [raw.next(DISPOSITION)]
            assert [(one["settled"], one["state"].kind) for one in said] == [(True, "accepted")]
            assert bodies(raw.heard()) == []
