"""SCRAM-SHA-256, the server's side (RFC 5802, RFC 7677), without I/O.

The server keeps no password and gets none: a client shows that it knows the password, and the
server that it has what was made of it. Nothing here is slow, the client does the hard work.
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
#: What a client has to do for each login, about 15 ms in native code (RFC 7677: 4,096 at least).
ITERATIONS = 32_768
ITERATIONS_MIN = 4_096
SALT_BYTES = 16
_NONCE_BYTES = 18

#: gs2-header and client-first-message-bare; `p=` (channel binding) is only for what isn't offered.
_FIRST = re.compile(
    r"(?P<header>(?:n|y),(?:a=(?P<act_as>[^,]*))?,)"
    r"(?P<bare>n=(?P<user>[^,]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,.*)?)"
)
_FINAL = re.compile(
    r"(?P<unproved>c=(?P<header>[^,]*),r=(?P<nonce>[^,]*)(?:,.*)?),p=(?P<proof>[^,]*)"
)


class ScramKeys(msgspec.Struct, frozen=True):
    """What is kept of a password: enough to check a proof, not enough to make one."""

    iterations: int
    salt: bytes
    stored: bytes
    server: bytes


def keys_of(password: str, salt: bytes = b"", iterations: int = ITERATIONS) -> ScramKeys:
    """The keys of a password. ValueError when it can't be one."""
    salt = salt or os.urandom(SALT_BYTES)
    salted = pbkdf2_hmac("sha256", saslprep(password).encode(), salt, iterations)
    client = _mac(salted, b"Client Key")
    return ScramKeys(iterations, salt, sha256(client).digest(), _mac(salted, b"Server Key"))


def decoy(secret: bytes, user: str) -> ScramKeys:
    """What a user that isn't there is asked with: always the same, and no proof fits it."""
    salt = _mac(secret, b"salt " + user.encode())[:SALT_BYTES]
    return ScramKeys(ITERATIONS, salt, os.urandom(32), os.urandom(32))


class ScramServer:
    """One login. First `first`, then `final`; each raises ValueError when the client's message
    isn't what it must be."""

    def __init__(self, keys: Callable[[str], ScramKeys], nonce: str = "") -> None:
        self._keys_of = keys
        self._nonce = nonce or b64encode(os.urandom(_NONCE_BYTES)).decode()
        self.user = ""

    def first(self, message: bytes) -> bytes:
        """The answer to the client's first message: its salt and how often to hash."""
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
        """The server's own proof, when the client's is right; None when it is wrong."""
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
    """A saslname: comma and equals sign are written as =2C and =3D, and no other `=` is right."""
    if re.search("=(?!2C|3D)", text):
        raise ValueError("the user's name has an '=' that is not =2C or =3D")
    return text.replace("=2C", ",").replace("=3D", "=")


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except NotBase64 as error:
        raise ValueError(f"what should be base64 isn't: {error}") from None
