"""A peer's value that can't be said back, or counted, ends that peer's link or connection with a
clean condition: none of it is a bug of the gateway's.
"""

from collections.abc import Callable, Iterator

import pytest
from gateway_codec import encode
from gateway_frames import (
    ATTACH,
    SOURCE,
    TARGET,
    begun,
    composite,
    frame,
    framed,
)
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway
from proton import timestamp, uint, ulong

BIG = 2**63
#: A text in Latin-1, and a symbol in UTF-8: neither is what it says.
NO_UTF8, NO_ASCII = b"\xa1\x01\xe9", b"\xa3\x02\xc3\xa9"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(
        tmp_path_factory.mktemp("values"), {"amqp": {"idle_timeout_ms": 4_000}}
    ) as running:
        yield running
        running.stop()


def attach(*fields: bytes) -> bytes:
    """An attach whose fields are given as bytes."""
    return framed(b"\x00\x53\x12" + wide_list(*fields))


def wide_list(*fields: bytes) -> bytes:
    content = b"".join(fields)
    return (
        b"\xd0" + (len(content) + 4).to_bytes(4, "big") + len(fields).to_bytes(4, "big") + content
    )


NULL = b"\x40"
TEXT: Callable[[str], bytes] = encode
RECEIVER = (b"\xa1\x01r", b"\x43", b"\x41", NULL, NULL)
SENDER = (b"\xa1\x01s", b"\x43", b"\x42", NULL, NULL)


def source(*fields: bytes) -> bytes:
    return b"\x00\x53\x28" + wide_list(*fields)


def target(*fields: bytes) -> bytes:
    return b"\x00\x53\x29" + wide_list(*fields)


MANAGEMENT, ADDRESS = TEXT("$management"), TEXT("t")
ELSE = (NULL,) * 5
ATTACHES = {
    "answers of management go to no text": attach(*RECEIVER, source(MANAGEMENT), target(NO_UTF8)),
    "a sender's own address is no text": attach(*SENDER, source(NO_UTF8), target(ADDRESS)),
    "a receiver's own address is no text": attach(*RECEIVER, source(ADDRESS), target(NO_UTF8)),
    "a request's own address is no text": attach(*SENDER, source(NO_UTF8), target(MANAGEMENT)),
    "a target's capability is a string é": attach(
        *SENDER, source(), target(ADDRESS, *ELSE, TEXT("é"))
    ),
    "a source's capability is a string é": attach(
        *RECEIVER, source(ADDRESS, *ELSE, *ELSE[:4], TEXT("é")), target()
    ),
    "an outcome is a string é": attach(
        *RECEIVER, source(ADDRESS, *ELSE, *ELSE[:3], TEXT("é")), target()
    ),
    "a desired capability is no ASCII": attach(
        *RECEIVER, source(ADDRESS), target(), *ELSE, NO_ASCII
    ),
    "properties have a list as a key": attach(
        *RECEIVER, source(ADDRESS), target(), NULL, NULL, NULL, NULL, NULL, NULL,
        b"\xc1\x05\x02\xc0\x01\x00\x40",
    ),
    "a filter has a list as a key": attach(
        *RECEIVER, source(ADDRESS, *ELSE, NULL, b"\xc1\x05\x02\xc0\x01\x00\x40"), target()
    ),
    "a selector is a character that is none": attach(
        *RECEIVER,
        source(
            ADDRESS, *ELSE, NULL,
            b"\xc1\x14\x02\xa1\x01f\x00\x80" + (0x468C00000004).to_bytes(8, "big")
            + b"\x73\x00\x00\xd8\x00",
        ),
        target(),
    ),
    "a name is no UTF-8": attach(NO_UTF8, *RECEIVER[1:], source(ADDRESS), target()),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACHES)
def test_an_attach_that_cant_be_said_back_ends_its_connection(home: Gateway, name: str) -> None:
    with begun(home.port, f"hostile {name}"[:60].replace(" ", "-"), ATTACHES[name]) as raw:
        close = raw.until_end()[-1]
        assert close.kind == "close", close
        assert close.error in {"amqp:decode-error", "amqp:connection:framing-error"}, close
    assert not home.events("connection.bug")


def test_an_error_that_the_engine_cuts_in_a_character_is_told(home: Gateway) -> None:
    """The engine has so many bytes for a sentence, and fills them with what it quotes: an é of two
    bytes at every place ends at an odd one in half of them."""
    for size in (511, 512, 1_000, 1_001, 1_022, 1_023, 1_024, 2_047, 2_048, 2_049):
        for shift in ("", "x"):
            name = shift + "é" * size
            with begun(home.port, f"cut-{size}{shift}") as raw:
                source = composite(SOURCE, "t")
                one = frame(ATTACH, name, uint(0), True, None, None, source, composite(TARGET))
                raw.send(one, one)
                raw.until_end()
    assert not home.events("connection.bug")


def test_an_idle_peer_that_doesnt_read_is_dropped(home: Gateway) -> None:
    """The engine is asked for the error once more where the peer's socket is full, too."""
    with begun(home.port, "idle-é") as raw:
        assert raw.until_end()[-1].error == "amqp:resource-limit-exceeded"
    assert not home.events("connection.bug")


HINT = {"topic": "t", "selector": "a = 1", "matches": bytes(4)}
REQUESTS = {
    "a hint from 2^63 on": ("HINT", HINT | {"start": ulong(BIG), "stop": ulong(BIG + 1)}),
    "a hint to 2^63": ("HINT", HINT | {"start": ulong(BIG - 1), "stop": ulong(BIG)}),
    "a rewind to 2^63": ("REWIND", {"to": ulong(BIG)}),
    "so many of 2^63": ("HELD", {"from": ulong(BIG), "count": 1}),
    "a count of 2^64 - 1": ("HELD", {"from": 0, "count": ulong(2**64 - 1)}),
    "wait for 2^63": ("ACQUIRE", {"holder": "h", "keep": "", "max": 1, "wait_ms": ulong(BIG)}),
    "an incarnation of 2^63": ("ACQUIRE", {"holder": "h", "keep": "", "incarnation": ulong(BIG)}),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_a_number_that_no_place_has_is_refused(home: Gateway, name: str) -> None:
    operation, attributes = REQUESTS[name]
    with Peer(home.port, "asker") as peer:
        peer.leave(peer.shared_durable("numbers", "numbers|global"), closed=False)
        manager = Manager(peer)
        text = manager.refused(400, operation, "subscription", "global/numbers", **attributes)
        assert "2^63 - 1" in text
    assert not home.events("connection.bug")


def test_the_last_time_that_there_is_leads_to_the_end(home: Gateway) -> None:
    """Milliseconds become microseconds, which would be more than 64 bits have."""
    with Peer(home.port, "asker") as peer:
        peer.leave(peer.shared_durable("late", "late|global"), closed=False)
        manager = Manager(peer)
        answer = manager.ask("SKIP", "subscription", "global/late", to=timestamp(BIG - 1))
        assert answer.status == 200, answer
    assert not home.events("connection.bug")
