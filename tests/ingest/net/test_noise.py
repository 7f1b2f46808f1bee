"""Conversations with random damage: whatever comes of each, the gateway and its others live on."""

import random
from contextlib import suppress

import pytest
from gateway_frames import (
    AMQP_HEADER,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    SOURCE,
    Raw,
    accept_frame,
    begin_frame,
    begun,
    composite,
    credit_frame,
    durable_source,
    frame,
    open_frame,
    receiver_frame,
    sender_frame,
    topic_target,
    transfer_frame,
)
from gateway_links import encoded
from gateway_peer import Connect
from gateway_process import Gateway
from proton import Described, symbol, uint, ulong

pytestmark = pytest.mark.usefixtures("unharmed")


def conversation(container: str) -> list[bytes]:
    """A bit of everything that a client says, a frame each."""
    filters = {symbol("f"): Described(ulong(5), "x")}
    return [
        AMQP_HEADER,
        open_frame(container),
        begin_frame(),
        sender_frame("s", topic_target("noise")),
        receiver_frame("r", durable_source("noise"), handle=1),
        receiver_frame("p", composite(SOURCE, "noise", *[None] * 6, filters), handle=2),
        credit_frame(10, 1),
        credit_frame(10, 2),
        transfer_frame(0, encoded({"a": 1, "b": [1, 2]})),
        transfer_frame(1, encoded("x", durable=False)),
        frame(DISPOSITION, False, uint(0), uint(1), True),
        accept_frame(0, 3),
        accept_frame(0, 1, settled=False),
        frame(DETACH, uint(1), True),
        frame(DETACH, uint(0), False),
        frame(END),
        frame(CLOSE),
    ]


def test_a_link_that_is_attached_twice_ends_its_connection(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """And leaves no consumer behind: the subscription is free for the next one."""
    receiver = receiver_frame("r", durable_source(topic))
    with begun(gateway.port, topic, receiver, credit_frame(1), receiver, credit_frame(2)) as raw:
        assert raw.next(CLOSE).error
        raw.send(frame(CLOSE))
    connect().sender(topic).publish("one")
    assert connect(topic).durable(topic, "r").bodies() == ["one"]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_peer_says_the_gateway_lives(gateway: Gateway, topic: str, seed: int) -> None:
    """A conversation with some bytes changed, frames repeated and out of order; many times."""
    dice = random.Random(seed)
    telling = bytes.fromhex("00014041455380a1b1c0d0f0ff")
    for _ in range(100):
        frames = [bytearray(one) for one in conversation(topic)]
        for _ in range(dice.randint(1, 4)):
            one = dice.choice(frames[1:])
            at = dice.randrange(8, len(one)) if dice.random() < 0.9 else dice.randrange(8)
            one[at] = dice.choice([*telling, dice.randrange(256)])
        if dice.random() < 0.3:
            frames.insert(dice.randrange(1, len(frames)), dice.choice(frames))
        if dice.random() < 0.2:
            frames[2:] = dice.sample(frames[2:], len(frames) - 2)
        with Raw(gateway.port) as raw, suppress(OSError):
            raw.socket.settimeout(0.002)  # the stimulus: it reads now and then
            for one in frames:
                raw.send(bytes(one))
                if dice.random() < 0.3:
                    with suppress(TimeoutError):
                        raw.exactly(1 << 20)
    assert gateway.running, gateway.log[-2_000:]
