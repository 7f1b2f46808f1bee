"""SASL by hand, over a plain or a TLS socket: what no client's library would send, or show."""

import hmac
import secrets
import ssl
import struct
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from hashlib import pbkdf2_hmac, sha256
from typing import Self

from gateway_frames import AMQP_HEADER, SASL_HEADER, Raw
from proton import Data, Described, symbol, ulong

MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = range(0x40, 0x45)


def frame(code: int, *values: object) -> bytes:
    data = Data()
    data.put_object(Described(ulong(code), list(values)))
    body = bytes(data.encode())
    return struct.pack(">IBBH", 8 + len(body), 2, 1, 0) + body


def init(mechanism: str, response: bytes | None = b"") -> bytes:
    return frame(INIT, symbol(mechanism), response)


def response(data: bytes) -> bytes:
    return frame(RESPONSE, data)


def plain(user: str, password: str, act_as: str = "") -> bytes:
    return init("PLAIN", f"{act_as}\0{user}\0{password}".encode())


@dataclass
class ScramClient:
    """A client's side of SCRAM-SHA-256 (RFC 5802), written for ASCII and what SASLprep drops."""

    user: str
    password: str
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))

    def first(self) -> bytes:
        self._bare = f"n={self.user},r={self.nonce}"
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        said = dict(part.split("=", 1) for part in challenge.decode().split(","))
        assert said["r"].startswith(self.nonce)
        assert len(said["r"]) > len(self.nonce)
        password = self.password.replace("\u00ad", "").encode()
        salted = pbkdf2_hmac("sha256", password, b64decode(said["s"]), int(said["i"]))
        unproved = f"c=biws,r={said['r']}"
        whole = f"{self._bare},{challenge.decode()},{unproved}".encode()
        key = hmac.digest(salted, b"Client Key", "sha256")
        mask = hmac.digest(sha256(key).digest(), whole, "sha256")
        proof = bytes(one ^ other for one, other in zip(key, mask, strict=True))
        self._trusted = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), whole, "sha256")
        return f"{unproved},p={b64encode(proof).decode()}".encode()

    def trusts(self, proof: bytes) -> bool:
        return proof == b"v=" + b64encode(self._trusted)


class Login(Raw):
    """A socket on which nothing but SASL has been said."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        super().__init__(port)
        try:
            if context is not None:
                self.socket = context.wrap_socket(self.socket, server_hostname="localhost")
            self.send(SASL_HEADER)
            assert self.exactly(8) == SASL_HEADER
            [names] = self.sasl(MECHANISMS)
        except BaseException:
            self.socket.close()
            raise
        self.mechanisms = [str(name) for name in names]

    def __enter__(self) -> Self:
        return self

    def sasl(self, code: int) -> list:
        """The fields of the next frame, which must be of this kind."""
        head = self.exactly(8)
        assert len(head) == 8, "the gateway has ended the socket"
        size, offset, kind, _ = struct.unpack(">IBBH", head)
        assert kind == 1
        body = self.exactly(size - 8)[4 * offset - 8 :]
        data = Data()
        data.decode(body)
        data.rewind()
        data.next()
        value = data.get_object()
        assert value.descriptor == code, f"0x{value.descriptor:x} instead of 0x{code:x}"
        fields = value.value
        return [
            list(one.elements)
            if hasattr(one, "elements")
            else bytes(one)
            if isinstance(one, memoryview)
            else one
            for one in fields
        ]

    def outcome(self) -> int:
        return int(self.sasl(OUTCOME)[0])

    def log_in(self, first: bytes) -> int:
        """Send this frame, and the outcome's code; after a good one AMQP's header is exchanged."""
        self.send(first)
        return self._begin(self.outcome())

    def scram(self, user: str, password: str) -> int:
        """A whole SCRAM-SHA-256; the outcome's code. Believes the gateway only if it has shown
        that it knows the password."""
        client = ScramClient(user, password)
        self.send(init("SCRAM-SHA-256", client.first()))
        [challenge] = self.sasl(CHALLENGE)
        self.send(response(client.final(challenge)))
        try:
            [proof] = self.sasl(CHALLENGE)
        except AssertionError as error:
            assert "0x44" in str(error), error  # noqa: PT017 (the outcome came instead)
            return 1
        assert client.trusts(proof)
        self.send(response(b""))
        return self._begin(self.outcome())

    def _begin(self, code: int) -> int:
        if code == 0:
            self.send(AMQP_HEADER)
            assert self.exactly(8) == AMQP_HEADER
        return code
