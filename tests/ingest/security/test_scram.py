"""SCRAM-SHA-256 and SASLprep, by the examples of their RFCs and by what clients may do wrong."""

import hmac
from base64 import b64decode
from hashlib import pbkdf2_hmac, sha256

import pytest
from gateway_sasl import ScramClient
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.security.saslprep import saslprep
from distributary.ingest.security.scram import ScramKeys, ScramServer, decoy, keys_of

#: RFC 7677, section 3.
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

KEYS = keys_of("pencil", SALT, 4_096)


def server(asked: list[str] | None = None) -> ScramServer:
    def keys(user: str) -> ScramKeys:
        if asked is not None:
            asked.append(user)
        return KEYS

    return ScramServer(keys, NONCE)


def test_the_example_of_the_rfc() -> None:
    """RFC 7677, section 3, byte for byte."""
    one = server()
    assert one.first(CLIENT_FIRST) == SERVER_FIRST
    assert one.final(CLIENT_FINAL) == SERVER_FINAL
    assert one.user == "user"


def test_what_is_kept_is_not_the_password_and_not_enough_to_log_in() -> None:
    """The client's key hashes to the stored key; the stored key doesn't show the client's."""
    salted = pbkdf2_hmac("sha256", b"pencil", SALT, 4_096)
    client = hmac.digest(salted, b"Client Key", "sha256")
    assert KEYS.stored == sha256(client).digest()
    assert client not in (KEYS.stored, KEYS.server)


@pytest.mark.parametrize("password", ["pencil", "x" * 200, "naïve 密", "\u00adpencil"])
def test_a_client_of_its_own_logs_in(password: str) -> None:
    """With the password alone, and sees that the server knows it, too."""
    keys = keys_of(password)
    client, one = ScramClient("user", password), ScramServer(lambda _: keys)
    proof = one.final(client.final(one.first(client.first())))
    assert proof is not None
    assert client.trusts(proof)


def test_a_wrong_password_gets_nothing() -> None:
    """No proof of ours either."""
    one = server()
    client = ScramClient("user", "crayon")
    assert one.final(client.final(one.first(client.first()))) is None


def test_names_are_escaped_and_prepared() -> None:
    """=2C is a comma, =3D an equals sign, and a soft hyphen is nothing."""
    asked: list[str] = []
    server(asked).first("n,,n=a=2Cb=3Dc\u00ad,r=x".encode())
    assert asked == ["a,b=c"]


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,r=x,n=user",
        b"n,,n=,r=x",
        b"n,,n=us=er,r=x",
        b"n,,n=us=2cer,r=x",
        b"n,,n=user,r=",
        b"n,,n=user,r=a b",
        b"n,,m=new,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,a=root,n=user,r=x",
        b"n,,n=user,r=\xff",
        b"n,,n=us\x07er,r=x",
        b"q,,n=user,r=x",
    ],
)
def test_a_broken_first_message_ends_the_login(first: bytes) -> None:
    """ValueError: the handshake fails, nothing else."""
    with pytest.raises(ValueError):
        server().first(first)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b"k0,p=", b"k1,p="),
        (b"r=rOpr", b"r=sOpr"),
        (b"c=biws", b"c=eSws"),
        (b"c=biws", b"c=!"),
        (b"ndVQ=", b""),
        (b"ndVQ=", b"\xff"),
        (CLIENT_FINAL, b""),
    ],
)
def test_a_client_that_lies_about_what_was_said_ends_the_login(was: bytes, becomes: bytes) -> None:
    """Another nonce, another header, a proof that is none."""
    one = server()
    one.first(CLIENT_FIRST)
    with pytest.raises(ValueError):
        one.final(CLIENT_FINAL.replace(was, becomes))


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_no_bytes_log_anybody_in(first: bytes, final: bytes) -> None:
    """And none raise anything but ValueError."""
    one = server()
    try:
        one.first(first)
        assert one.final(final) is None
    except ValueError:
        return


def test_a_user_that_is_not_there_looks_like_one() -> None:
    """Its salt has the length of a real one, and is the same tomorrow; no proof fits it."""
    one, again, other = (decoy(b"secret", user) for user in ("eve", "eve", "mallory"))
    assert one.salt == again.salt != other.salt
    assert len(one.salt) == len(keys_of("x").salt)
    assert one.iterations == keys_of("x").iterations
    assert one.stored != again.stored


#: RFC 4013, section 3, and one for each table that it names.
PREPARED = {
    "I\u00adX": "IX",
    "user": "user",
    "USER": "USER",
    "\u00aa": "a",
    "\u2168": "IX",
    "a\u00a0b": "a b",
    "e\u0301": "é",
    "\u0627\u0031\u0628": "\u06271\u0628",
}


@pytest.mark.parametrize("text", PREPARED)
def test_saslprep_maps_and_normalizes(text: str) -> None:
    """The examples of the RFC."""
    assert saslprep(text) == PREPARED[text]


@pytest.mark.parametrize(
    "text",
    [
        *("\u0007", "\u0627\u0031", "\u0627a\u0628", "\x80", "\ue000", "\ufdd0", "\ud800"),
        *("\ufff9", "\u2ff0", "\u200e", "\U000e0001", "\u0221"),
    ],
)
def test_saslprep_refuses_what_can_not_be_in_a_name(text: str) -> None:
    """Controls, private use, halves of characters, mixed directions, what Unicode 3.2 lacks."""
    with pytest.raises(ValueError):
        saslprep(text)
