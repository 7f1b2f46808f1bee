"""The handshake before AMQP, without a socket."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Data, Described, symbol, ulong
from traced_memory import traced

from distributary.ingest.security.handshake import (
    AMQP_HEADER,
    SASL_HEADER,
    Established,
    Failed,
    Handshake,
    Offer,
    Reply,
    Step,
    Verify,
)


def init(mechanism: str, response: bytes) -> bytes:
    data = Data()
    data.put_object(Described(ulong(0x41), [symbol(mechanism), response]))
    body = bytes(data.encode())
    return (8 + len(body)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


def machine(*, check: bool = False, anonymous: bool = True) -> Handshake:
    return Handshake(Offer(("PLAIN", "ANONYMOUS") if anonymous else ("PLAIN",), check=check))


ANONYMOUS = SASL_HEADER + init("ANONYMOUS", b"") + AMQP_HEADER + b"rest"


@given(st.lists(st.integers(1, len(ANONYMOUS) - 1), max_size=6))
def test_any_split_of_the_bytes_gives_the_same_steps(cuts: list[int]) -> None:
    """TCP may cut the bytes anywhere; what comes out doesn't change."""
    edges = [0, *sorted(cuts), len(ANONYMOUS)]
    handshake, steps = machine(), list[Step]()
    for start, stop in pairwise(edges):
        steps += handshake.feed(ANONYMOUS[start:stop])
        if any(isinstance(step, Established) for step in steps):
            break

    assert [type(step) for step in steps] == [Reply, Reply, Established]
    assert steps[2].user == "anonymous"
    assert (AMQP_HEADER + b"rest").startswith(steps[2].rest)


def test_a_peer_may_leave_sasl_out_where_anybody_may_connect() -> None:
    """AMQP's header at once is fine with anonymous access, and refused without."""
    assert machine().feed(AMQP_HEADER) == [Established("anonymous", AMQP_HEADER)]
    (step,) = machine(anonymous=False).feed(AMQP_HEADER)
    assert isinstance(step, Failed)


def test_a_password_is_checked_before_anything_else_is_said() -> None:
    """The outcome goes out after the check, and what came meanwhile is kept."""
    handshake = machine(check=True)
    steps = handshake.feed(SASL_HEADER + init("PLAIN", b"\0bob\0secret") + AMQP_HEADER)
    assert steps[1:] == [Verify("bob", "secret")]

    outcome, established = handshake.verified(ok=True)
    assert isinstance(outcome, Reply)
    assert established == Established("bob", AMQP_HEADER)


def test_a_wrong_password_ends_with_an_outcome() -> None:
    """The peer is told `auth`, and the log who it was."""
    handshake = machine(check=True)
    handshake.feed(SASL_HEADER + init("PLAIN", b"\0bob\0guess"))
    (failed,) = handshake.verified(ok=False)
    assert isinstance(failed, Failed)
    assert "bob" in failed.reason
    assert failed.reply.endswith(b"\x50\x01")


@given(st.binary(min_size=8, max_size=200))
def test_garbage_after_the_sasl_header_is_refused_or_waited_for(garbage: bytes) -> None:
    """No bytes make it raise, and none but a sasl-init log a user in."""
    steps = machine().feed(SASL_HEADER + garbage)[1:]
    assert not any(isinstance(step, Established) for step in steps)


def described(body: bytes) -> bytes:
    """A SASL frame of this performative."""
    return SASL_HEADER + (8 + len(body)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


#: `sasl-init` with bodies that cost a decoder much more than their bytes, or that end too early.
_EMPTY = b"\xf0\x00\x00\x00\x05\x00\x00\xff\xf0\x40"
COSTLY = {
    "giant arrays of nothing": b"\xd0\x00\x00\x0f\xa4\x00\x00\x01\x90" + _EMPTY * 400,
    "an array of nothing as mechanism": b"\xc0\x0b\x01" + _EMPTY,
    "deep nesting": b"\xd0\x00\x00\x0f\xa0\x00\x00\x00\x01" + b"\x00" * 3_996,
    "two thousand million fields": b"\xd0\x00\x00\x00\x08\x80\x00\x00\x00\x40\x40\x40\x40",
    "a list that ends early": b"\xc0\x20\x02\xa3\x05PLAIN",
    "no list": b"\xa0\x00",
    "no fields": b"\x45",
    "nothing": b"",
}


@pytest.mark.parametrize("what", COSTLY)
def test_a_login_costs_no_more_than_its_bytes(what: str) -> None:
    """It is refused; what its values claim to be is never built."""
    with traced() as memory:
        *_, step = machine().feed(described(b"\x00\x53\x41" + COSTLY[what]))
    assert isinstance(step, Failed)
    assert memory.peak < 1 << 16


def test_descriptors_and_lists_come_in_all_their_forms() -> None:
    """Short and long, number and symbol; a mechanism and nothing else is enough."""
    for descriptor in (b"\x53\x41", b"\x80" + bytes(7) + b"\x41", b"\xa3\x13amqp:sasl-init:list"):
        for fields in (b"\xc0\x0c\x01", b"\xd0\x00\x00\x00\x0f\x00\x00\x00\x01"):
            frame = described(b"\x00" + descriptor + fields + b"\xa3\x09ANONYMOUS")
            *_, step = machine().feed(frame)
            assert isinstance(step, Reply), step


@given(st.binary(min_size=8, max_size=40).filter(lambda b: not b.startswith(b"AMQP")))
def test_what_is_not_amqp_is_answered_with_our_header(garbage: bytes) -> None:
    """The reply says what we speak (part 2, section 2.2), then the socket closes."""
    (step,) = machine().feed(garbage)
    assert isinstance(step, Failed)
    assert step.reply == SASL_HEADER


def test_a_mechanism_that_was_not_offered_is_refused() -> None:
    """No client logs in by a mechanism that wasn't offered."""
    *_, step = machine().feed(SASL_HEADER + init("EXTERNAL", b""))
    assert isinstance(step, Failed)
    assert "EXTERNAL" in step.reason
