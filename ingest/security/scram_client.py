"""SCRAM-SHA-256, the client's side (RFC 5802, RFC 7677), without I/O: the other end of `scram`."""

import hmac
import os
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from hashlib import pbkdf2_hmac, sha256

from distributary.ingest.security.saslprep import saslprep

_NONCE_BYTES = 18
_CHALLENGE = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<rounds>[1-9]\d{0,9})(?:,.*)?")


class ScramClient:
    """One login: `first`, then `final` with the server's challenge, then `verify` with its last
    message. Each raises ValueError for a wrong message of the server."""

    def __init__(self, user: str, password: str, iterations_max: int, nonce: str = "") -> None:
        name = saslprep(user).replace("=", "=3D").replace(",", "=2C")
        self._nonce = nonce or b64encode(os.urandom(_NONCE_BYTES)).decode()
        self._bare, self._password = f"n={name},r={self._nonce}", password
        self._iterations_max = iterations_max
        self._proof = b""

    def first(self) -> bytes:
        """Return the client's first message: no channel binding, acting as itself."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the proof that the client knows the password."""
        text = challenge.decode()
        found = _CHALLENGE.fullmatch(text)
        if found is None:
            raise ValueError("the server's challenge can't be read")
        if not found["nonce"].startswith(self._nonce) or found["nonce"] == self._nonce:
            raise ValueError("the nonce isn't one for this login")
        rounds = int(found["rounds"])
        if rounds > self._iterations_max:
            raise ValueError(f"{rounds} rounds of hashing are asked for, {self._iterations_max} at "
                             "most are done (connection.scram_iterations_max)")  # fmt: skip
        try:
            salt = b64decode(found["salt"], validate=True)
        except NotBase64:
            raise ValueError("the server's salt isn't base64") from None
        salted = pbkdf2_hmac("sha256", saslprep(self._password).encode(), salt, rounds)
        unproved = f"c={b64encode(b'n,,').decode()},r={found['nonce']}"
        said = f"{self._bare},{text},{unproved}".encode()
        key = hmac.digest(salted, b"Client Key", "sha256")
        mask = hmac.digest(sha256(key).digest(), said, "sha256")
        proof = bytes(one ^ other for one, other in zip(key, mask, strict=True))
        server = hmac.digest(salted, b"Server Key", "sha256")
        self._proof = b"v=" + b64encode(hmac.digest(server, said, "sha256"))
        return f"{unproved},p={b64encode(proof).decode()}".encode()

    def verify(self, last: bytes) -> None:
        """Check the server's proof that it knows the password's keys."""
        if not self._proof or not hmac.compare_digest(last, self._proof):
            raise ValueError("the server's proof is wrong: it doesn't know the user")
