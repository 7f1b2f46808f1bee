"""A message that comes back, as too large for one consumer, where another's selector decides."""

from gateway_frames import AMQP_HEADER, Raw, frame_of
from gateway_jms import QUEUE, delivery, producer, selector, source, text_message
from gateway_process import Gateway
from proton import Described


def opened(port: int, name: str) -> Raw:
    window = {"next_outgoing_id": 0, "incoming_window": 100, "outgoing_window": 100}
    raw = Raw(port)
    raw.send(AMQP_HEADER, frame_of("open", container_id=name), frame_of("begin", **window))
    raw.expect("open", "begin")
    return raw


def attached(raw: Raw, name: str, of: Described, bytes_max: int) -> None:
    raw.send(frame_of("attach", name=name, handle=0, role=True, source=of, snd_settle_mode=0,
                      rcv_settle_mode=0, max_message_size=bytes_max))  # fmt: skip
    raw.expect("attach")


def credited(raw: Raw) -> None:
    window = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0}
    raw.send(frame_of("flow", **window, outgoing_window=100, handle=0, delivery_count=0,
                      link_credit=10))  # fmt: skip
    raw.heard()


def test_too_large_for_one_and_not_selected_by_the_other(gateway: Gateway, unharmed: None) -> None:
    """One takes no more than 100 bytes, the other one's selector doesn't match: what comes back
    from the first waits, and the gateway serves on. (It stopped: "nothing becomes of 0".)"""
    queue = "queue://too-large-for-one"
    with (
        opened(gateway.port, "selects") as selects,
        opened(gateway.port, "small") as small,
        opened(gateway.port, "sends") as sends,
    ):
        attached(selects, "s", source(queue, QUEUE, filters=selector("a = 1")), 0)
        attached(small, "l", source(queue, QUEUE), 100)
        credited(selects)
        credited(small)
        sends.send(producer(queue, QUEUE))
        sends.expect("attach", "flow")
        sends.send(*[delivery(n, text_message("x" * 500)) for n in range(5)])
        assert {one.kind for one in sends.heard()} <= {"disposition", "flow"}
        assert small.next(0x16).error == "amqp:link:message-size-exceeded"
