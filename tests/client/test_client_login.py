"""The login as a machine: with the gateway's own, and with servers that play false."""

import pytest

from distributary.client import ClientError, ConnectionFailed, LoginRefused
from distributary.client.connection.login import SASL_HEADER, Login
from distributary.client.connection.server_url import Identity, Server
from distributary.ingest.security.scram import ScramServer, keys_of
from distributary.ingest.security.scram_client import ScramClient
from distributary.pipeline.codec.amqp_codes import Descriptor, descriptor
from distributary.pipeline.codec.amqp_types import Symbol
from distributary.pipeline.codec.amqp_writer import Typed, write
from distributary.pipeline.codec.raw_values import list_of

USER, PASSWORD = "al,ice=", "wonder\u2168"
ITERATIONS_MAX = 50_000
SERVER = Server("host", 5672, None, Identity(USER, PASSWORD))


def frame(code: int, *fields: bytes) -> bytes:
    body = descriptor(code) + list_of(fields)
    return (8 + len(body)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


def offers(*names: str) -> bytes:
    """The header and the mechanisms; one symbol stands for an array of one."""
    several = list_of([write(Symbol(name)) for name in names])
    return SASL_HEADER + frame(Descriptor.SASL_MECHANISMS, several)


def outcome(code: int, *more: bytes) -> bytes:
    return frame(Descriptor.SASL_OUTCOME, write(Typed("ubyte", code)), *more)


def begun(*names: str) -> Login:
    """A login to which these ways are offered."""
    login = Login(SERVER, ITERATIONS_MAX)
    assert login.begin() == SASL_HEADER
    assert login.feed(offers(*names)).reply
    return login


def test_both_sides_know_the_password() -> None:
    """And each shows it; another one doesn't lead in."""
    keys = keys_of(PASSWORD, iterations=4_096)
    client, server = ScramClient(USER, PASSWORD, ITERATIONS_MAX), ScramServer(lambda _: keys)
    proof = client.final(server.first(client.first()))
    assert server.user == USER
    last = server.final(proof)
    assert last is not None
    client.verify(last)
    with pytest.raises(ValueError, match="proof is wrong"):
        client.verify(last[:-4] + b"AAA=")
    client, server = ScramClient(USER, "other", ITERATIONS_MAX), ScramServer(lambda _: keys)
    assert server.final(client.final(server.first(client.first()))) is None


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"r=another,s=AAAA,i=4096",
        b"r=ours,s=AAAA,i=4096",
        b"r=oursandmore,s=?,i=4096",
        b"r=oursandmore,s=AAAA,i=0",
        b"r=oursandmore,s=AAAA,i=50001",
        b"r=oursandmore,s=AAAA,i=99999999999",
        b"\xff",
    ],
)
def test_a_false_challenge_is_refused(challenge: bytes) -> None:
    """A nonce of another login, one that isn't the server's too, too many rounds."""
    client = ScramClient(USER, PASSWORD, ITERATIONS_MAX, nonce="ours")
    with pytest.raises(ValueError, match=r"."):
        client.final(challenge)


def test_a_server_that_skips_its_proof_is_not_trusted() -> None:
    """Any host may have sent its answer."""
    with pytest.raises(LoginRefused, match="didn't show"):
        begun("SCRAM-SHA-256").feed(outcome(0))
    with pytest.raises(LoginRefused, match="proof is wrong"):
        begun("SCRAM-SHA-256").feed(outcome(0, write(b"v=AAAA")))


def test_the_best_way_is_taken() -> None:
    """SCRAM before PLAIN; none that doesn't fit."""
    login = Login(SERVER, ITERATIONS_MAX)
    assert b"SCRAM-SHA-256" in login.feed(offers("PLAIN", "SCRAM-SHA-256")).reply
    login = Login(SERVER, ITERATIONS_MAX)
    assert b"PLAIN" in login.feed(offers("ANONYMOUS", "PLAIN")).reply
    with pytest.raises(LoginRefused, match="ANONYMOUS, EXTERNAL"):
        Login(SERVER, ITERATIONS_MAX).feed(offers("ANONYMOUS", "EXTERNAL"))
    done = begun("PLAIN").feed(outcome(0) + b"AMQP")
    assert (done.done, done.rest) == (True, b"AMQP")
    with pytest.raises(LoginRefused, match="wrong user or password"):
        begun("PLAIN").feed(outcome(1))


def test_bytes_come_one_by_one() -> None:
    """As a socket may bring them."""
    login, replies = Login(SERVER, ITERATIONS_MAX), b""
    for byte in offers("PLAIN"):
        replies += login.feed(bytes((byte,))).reply
    assert b"PLAIN" in replies


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400",
        b"AMQP\x00\x01\x00\x00",
        b"\x15\x03\x01",
        SASL_HEADER + b"\xff\xff\xff\xff\x02\x01\x00\x00",
        SASL_HEADER + b"\x00\x00\x00\x09\x01\x01\x00\x00\x00",
        SASL_HEADER + b"\x00\x00\x00\x0a\x02\x01\x00\x00\x00\xff",
        SASL_HEADER + frame(Descriptor.OPEN),
        SASL_HEADER + b"\x00\x00\x00\x0b\x02\x01\x00\x00" + write(None) + b"\x40\x40",
    ],
)
def test_what_is_no_login_is_a_sentence(data: bytes) -> None:
    """Any other bytes of a server give a sentence that names its address."""
    with pytest.raises(ClientError) as told:
        Login(SERVER, ITERATIONS_MAX).feed(data)
    assert isinstance(told.value, ConnectionFailed)
    assert "amqp://host:5672" in str(told.value)
