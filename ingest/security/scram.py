"""SCRAM-SHA-256, the server's side (RFC 5802, RFC 7677), without I/O.

The server keeps no password and gets none: the client proves that it knows the password, and the
server that it has keys made of it. The server's part is cheap, the client does the slow hashing.
"""

import hmac
import os
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable
from hashlib import pbkdf2_hmac, sha256

import msgspec

from distributary.ingest.security.saslprep import saslprep

MECHANISM = "SCRAM-SHA-256"
#: Rounds of a client for each login, about 15 ms in native code (RFC 7677: 4,096 at least).
ITERATIONS = 32_768
ITERATIONS_MIN = 4_096
SALT_BYTES = 16
_NONCE_BYTES = 18

#: gs2-header and client-first-message-bare; `p=` (channel binding) isn't offered.
_FIRST = re.compile(
    r"(?P<header>(?:n|y),(?:a=(?P<act_as>[^,]*))?,)"
    r"(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,.*)?)"
)
_FINAL = re.compile(
    r"(?P<unproved>c=(?P<header>[^,]*),r=(?P<nonce>[^,]*)(?:,.*)?),p=(?P<proof>[^,]*)"
)


class ScramKeys(msgspec.Struct, frozen=True):
    """Keys kept of a password: enough to check a proof, not enough to make one."""

    iterations: int
    salt: bytes
    stored: bytes
    server: bytes


def keys_of(password: str, salt: bytes = b"", iterations: int = ITERATIONS) -> ScramKeys:
    """Return the keys of a password. Raises ValueError when it can't be one."""
    salt = salt or os.urandom(SALT_BYTES)
    salted = pbkdf2_hmac("sha256", saslprep(password).encode(), salt, iterations)
    client = _mac(salted, b"Client Key")
    return ScramKeys(iterations, salt, sha256(client).digest(), _mac(salted, b"Server Key"))


def decoy(secret: bytes, user: str) -> ScramKeys:
    """Return keys for an unknown user: their salt is always the same, and no proof fits them."""
    salt = _mac(secret, b"salt " + user.encode())[:SALT_BYTES]
    return ScramKeys(ITERATIONS, salt, os.urandom(32), os.urandom(32))


class ScramServer:
    """One login. First `first`, then `final`; each raises ValueError for a wrong message of the
    client."""

    def __init__(self, keys: Callable[[str], ScramKeys], nonce: str = "") -> None:
        self._keys_of = keys
        self._nonce = nonce or b64encode(os.urandom(_NONCE_BYTES)).decode()
        self.user = ""

    def first(self, message: bytes) -> bytes:
        """Return the answer to the client's first message: its salt and number of rounds."""
        found = _FIRST.fullmatch(message.decode())
        if found is None:
            raise ValueError("not a client's first message")
        self.user = saslprep(_name(found["user"]))
        if found["act_as"] and saslprep(_name(found["act_as"])) != self.user:
            raise ValueError(f"{self.user!r} can't act as another user")
        self._header = found["header"]
        self._nonce = found["nonce"] + self._nonce
        self._keys = self._keys_of(self.user)
        salt = b64encode(self._keys.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._keys.iterations}"
        self._said = f"{found['bare']},{answer}"
        return answer.encode()

    def final(self, message: bytes) -> bytes | None:
        """Return the server's own proof, if the client's is right; None if it is wrong."""
        found = _FINAL.fullmatch(message.decode())
        if found is None:
            raise ValueError("not a client's final message")
        if found["nonce"] != self._nonce:
            raise ValueError("the nonce is not the one of this login")
        if _bytes(found["header"]) != self._header.encode():
            raise ValueError("the header is not the one of the first message")
        said = f"{self._said},{found['unproved']}".encode()
        proof, mask = _bytes(found["proof"]), _mac(self._keys.stored, said)
        if len(proof) != len(mask):
            raise ValueError("the proof has a wrong length")
        client = bytes(one ^ other for one, other in zip(proof, mask, strict=True))
        if not hmac.compare_digest(sha256(client).digest(), self._keys.stored):
            return None
        return b"v=" + b64encode(_mac(self._keys.server, said))


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _name(text: str) -> str:
    """Read a saslname: comma and equals sign are written =2C and =3D; another `=` is an error."""
    if re.search("=(?!2C|3D)", text):
        raise ValueError("the user's name has an '=' that is not =2C or =3D")
    return text.replace("=2C", ",").replace("=3D", "=")


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except NotBase64 as error:
        raise ValueError(f"a field isn't base64: {error}") from None
