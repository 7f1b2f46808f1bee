"""Who may connect: a file of names and salted scrypt hashes (RFC 7914)."""

import hashlib
import hmac
import os
import tomllib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import InvalidRequest

#: Cost of a check: about 50 ms and 16 MiB, too slow to guess, fast enough to log in.
_N, _R, _P = 1 << 14, 8, 1
_SALT_BYTES = 16
#: What an unknown user is checked against, so that its answer takes as long.
_NOBODY = "scrypt$AAAAAAAAAAAAAAAAAAAAAA==$AAAA"


@dataclass(frozen=True, slots=True)
class Users:
    """Names and their hashes, as read from the file."""

    hashes: dict[str, str]

    @classmethod
    def read(cls, file: Path) -> "Users":
        """Raises InvalidRequest when the file can't be read or a line is not `name = "hash"`."""
        try:
            table = tomllib.loads(file.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidRequest(f"users file {file}: {error}") from None
        for name, text in table.items():
            if not _is_hash(text):
                raise InvalidRequest(
                    f"users file {file}: what '{name}' has is no hash scrypt$SALT$DIGEST"
                )
        return cls(table)

    def verify(self, user: str, password: str) -> bool:
        """Whether this is the user's password. Slow on purpose: not on the loop's thread."""
        _, salt, digest = self.hashes.get(user, _NOBODY).split("$")
        found = _scrypt(password, b64decode(salt))
        return hmac.compare_digest(found, b64decode(digest)) and user in self.hashes


def _is_hash(text: object) -> bool:
    """Whether `verify` can read it."""
    if not isinstance(text, str):
        return False
    kind, *parts = text.split("$")
    try:
        return (
            kind == "scrypt" and len(parts) == 2 and all(b64decode(p, validate=True) for p in parts)
        )
    except ValueError:
        return False


def hashed(password: str) -> str:
    """The hash to write into the file for this password."""
    salt = os.urandom(_SALT_BYTES)
    return f"scrypt${b64encode(salt).decode()}${b64encode(_scrypt(password, salt)).decode()}"


def _scrypt(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_N, r=_R, p=_P)
