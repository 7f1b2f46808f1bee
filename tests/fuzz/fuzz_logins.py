"""Bytes of random conversations before AMQP begins: headers and logins."""

import random
import subprocess
from pathlib import Path

from fuzz_values import damaged, text_bytes, wild
from gateway_frames import AMQP_HEADER, EMPTY_FRAME, SASL_HEADER, frame_of
from gateway_process import Gateway

#: The one who may log in where there are users.
USER, PASSWORD = "fuzz", "secret"
GOOD = frame_of("sasl-init", mechanism="PLAIN", initial_response=f"\0{USER}\0{PASSWORD}".encode())
#: What isn't served: TLS inside of AMQP, another protocol, half a header, two; a hello of TLS.
HEADERS = [
    *(b"AMQP\x02\x01\x00\x00", b"HTTP/1.1", b"AMQP\x00\x01", b"", AMQP_HEADER * 2),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)),
]
MECHANISMS = ["ANONYMOUS"] * 6 + ["PLAIN", "X", "SCRAM-SHA-256"]
#: Steps of SCRAM (RFC 5802) that are no login: of an unknown user, with a wrong proof, broken ones.
SCRAM = [
    *(b"n,,n=u,r=x", f"n,,n={USER},r=abc".encode(), b"y,,n=fuzz,r=", b"p=tls-unique,,n=fuzz,r=x"),
    *(b"n,a=other,n=fuzz,r=x", b"n,,n==2C=3D,r=x", b"n,,m=x,n=fuzz,r=x", b",,,", b"n", b""),
    *(b"c=biws,r=abc,p=AAAA", b"c=biws,r=abcdef,p=" + b"A" * 5_000, b"c=!,r=,p=", b"p=,p=,p="),
]


def users_file(folder: Path) -> Path:
    """A file with the one user."""
    users = folder / "users.toml"
    add = ("user", "add", USER, "--users", users)
    subprocess.run([*Gateway.COMMAND, *add], input=PASSWORD, text=True, check=True)
    return users


def hello(dice: random.Random, *, users: bool) -> list[bytes]:
    """The bytes before the open. With users, it is mostly a right login."""
    draw = dice.random()
    if draw < 0.02:
        return [dice.choice(HEADERS)]
    if users:
        steps = [GOOD] if draw < 0.6 else _login(dice)
        return [SASL_HEADER, *steps, AMQP_HEADER]
    return [AMQP_HEADER] if draw < 0.7 else [SASL_HEADER, *_nobody(dice), AMQP_HEADER]


def _nobody(dice: random.Random) -> list[bytes]:
    said = frame_of(
        "sasl-init",
        mechanism=dice.choice(MECHANISMS),
        initial_response=dice.choice([b"", b"\0u\0p", b"n,,n=u,r=x"]),
        hostname=wild(dice) if dice.random() < 0.05 else None,
    )
    if dice.random() < 0.1:
        said = damaged(said, dice)
    return [said, *([frame_of("sasl-response", response=b"x")] if dice.random() < 0.1 else [])]


def _login(dice: random.Random) -> list[bytes]:
    """Steps of a login that is wrong somewhere: in its words, its order, its fields or bytes."""
    plain = b"\0".join(text_bytes(dice) for _ in range(dice.randrange(5)))
    steps = dice.choice(
        [
            [_init("PLAIN", dice.choice([plain, f"\0{USER}\0no".encode(), b"\0" * 9]))],
            [_init("SCRAM-SHA-256", dice.choice(SCRAM)), *_responses(dice)],
            [_init(dice.choice([*MECHANISMS, "EXTERNAL", "é"]), text_bytes(dice))],
            [*_responses(dice), GOOD],
            [GOOD, GOOD],
            [EMPTY_FRAME, GOOD],
            [frame_of("sasl-init", mechanism=wild(dice), initial_response=wild(dice))],
            [frame_of("sasl-outcome", code=0), GOOD],
        ]
    )
    at = dice.randrange(len(steps))
    return (
        [*steps[:at], damaged(steps[at], dice), *steps[at + 1 :]] if dice.random() < 0.3 else steps
    )


def _init(mechanism: str, response: bytes) -> bytes:
    return frame_of("sasl-init", mechanism=mechanism, initial_response=response)


def _responses(dice: random.Random) -> list[bytes]:
    count = dice.choice([1, 1, 2, 5])
    return [frame_of("sasl-response", response=dice.choice(SCRAM)) for _ in range(count)]
