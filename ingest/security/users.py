"""The users: a file of names, with hashes of each one's password.

    alice = ["scrypt$SALT$DIGEST", "scram-sha-256$ITERATIONS$SALT$STORED$SERVER"]

The first hash is checked when a password comes (PLAIN), the second answers a client that doesn't
send its password (SCRAM-SHA-256, RFC 7677). A user with the first alone, also written as one text
without a list, can only use PLAIN. The line without a name has the secret from which unknown names
get a salt.
"""

import hashlib
import hmac
import os
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path

import msgspec

from distributary.ingest.security.gateway_login import GATEWAY
from distributary.ingest.security.saslprep import saslprep
from distributary.ingest.security.scram import ITERATIONS_MIN, ScramKeys, decoy, keys_of
from distributary.pipeline.errors import InvalidRequest

#: Cost of a check: about 50 ms and 16 MiB, too slow to guess, fast enough to log in.
_N, _R, _P = 1 << 14, 8, 1
_SALT_BYTES = 16
_DIGEST_BYTES = 64
_SECRET_BYTES = 32
_KEY_BYTES = 32
#: Bounds of a file's values: they cost its reader memory, and clients time.
_NAME_CHARACTERS_MAX = 255
_ITERATIONS_MAX = 10_000_000

#: The line that isn't a user.
SECRET = ""
#: The user of a peer without a login. No other user may have that name.
ANONYMOUS = "anonymous"
_RESERVED = f"'{GATEWAY}' can't be a user's name: gateways log in at each other so"


class PasswordHash(msgspec.Struct, frozen=True):
    """A scrypt hash (RFC 7914)."""

    salt: bytes
    digest: bytes


class User(msgspec.Struct, frozen=True):
    """Hashes of a user's password, by the mechanism that needs them."""

    password: PasswordHash
    scram: ScramKeys | None = None

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return ("PLAIN",) if self.scram is None else ("PLAIN", "SCRAM-SHA-256")


#: Hash that an unknown user's password is checked against, so that the answer takes as long.
_NOBODY = PasswordHash(bytes(_SALT_BYTES), bytes(_DIGEST_BYTES))


class Users(msgspec.Struct, frozen=True):
    """All users of the file, by prepared name (`saslprep`)."""

    by_name: Mapping[str, User]
    secret: bytes

    @classmethod
    def read(cls, file: Path, secret: bytes = b"") -> "Users":
        """Read a users file; `secret` is for a file without one. Raises InvalidRequest when the
        file can't be read or a line is wrong."""
        try:
            table = tomllib.loads(file.read_text())
        except OSError as error:
            raise InvalidRequest(f"users file {file} can't be read: {error.strerror}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidRequest(f"users file {file}: {error}") from None
        try:
            return _users(table, secret or new_secret())
        except ValueError as error:
            raise InvalidRequest(f"users file {file}: {error}") from None

    @property
    def scram(self) -> bool:
        """Whether any user can log in by SCRAM-SHA-256."""
        return any(user.scram is not None for user in self.by_name.values())

    def keys(self, name: str) -> ScramKeys:
        """Return the SCRAM keys of this user; for an unknown user keys that look alike and fit no
        password."""
        user = self.by_name.get(name)
        strange = decoy(self.secret, name)
        return strange if user is None or user.scram is None else user.scram

    def verify(self, name: str, password: str) -> bool:
        """Whether this is the user's password. Slow on purpose: not on the loop's thread."""
        user = self.by_name.get(name)
        against = _NOBODY if user is None else user.password
        right = False
        for text in _forms(password):
            digest = _scrypt(text, against.salt, len(against.digest))
            right = hmac.compare_digest(digest, against.digest) or right
        return right and user is not None


def user_of(password: str, *, scram: bool = True) -> User:
    """Return the hashes to keep of a password. Raises ValueError when it can't be a password."""
    prepared = saslprep(password)
    if not prepared:
        raise ValueError("the password is empty")
    salt = os.urandom(_SALT_BYTES)
    kept = PasswordHash(salt, _scrypt(prepared, salt, _DIGEST_BYTES))
    return User(kept, keys_of(prepared) if scram else None)


def name_of(text: str) -> str:
    """Return the prepared form of a new user's name. Raises ValueError when no user can have it."""
    name = saslprep(text)
    if not 0 < len(name) <= _NAME_CHARACTERS_MAX or not name.isprintable():
        raise ValueError(f"a user's name has 1 to {_NAME_CHARACTERS_MAX} printable characters")
    if name in (ANONYMOUS, "*"):
        raise ValueError(f"'{name}' can't be a user's name: it stands for others in permissions")
    if name == GATEWAY:
        raise ValueError(_RESERVED)
    return name


def new_secret() -> bytes:
    return os.urandom(_SECRET_BYTES)


def texts(user: User) -> list[str]:
    """Return the user's value in the file."""
    kept = [f"scrypt${_text(user.password.salt)}${_text(user.password.digest)}"]
    if user.scram is not None:
        keys = user.scram
        parts = [str(keys.iterations), *map(_text, (keys.salt, keys.stored, keys.server))]
        kept.append("$".join(["scram-sha-256", *parts]))
    return kept


def secret_text(secret: bytes) -> str:
    return f"secret${_text(secret)}"


def hashed(password: str) -> str:
    """Return the scrypt hash alone, as a user's whole value."""
    return texts(user_of(password, scram=False))[0]


def _users(table: Mapping[str, object], secret: bytes) -> Users:
    by_name: dict[str, User] = {}
    for name, value in table.items():
        if name == SECRET:
            secret = _secret(value)
            continue
        prepared = saslprep(name)
        if prepared == GATEWAY:
            raise ValueError(_RESERVED)
        if prepared in by_name:
            raise ValueError(f"there are two users '{prepared}'")
        by_name[prepared] = _user(name, value)
    return Users(by_name, secret)


def _user(name: str, value: object) -> User:
    password, scram = None, None
    for text in value if isinstance(value, list) else [value]:
        kind, *parts = text.split("$") if isinstance(text, str) else ("",)
        try:
            match kind, parts:
                case "scrypt", [salt, digest]:
                    password = PasswordHash(_bytes(salt), _bytes(digest))
                case "scram-sha-256", [iterations, *rest] if len(rest) == 3:
                    scram = _keys(int(iterations), *map(_bytes, rest))
                case _:
                    raise ValueError("it is no hash scrypt$SALT$DIGEST")  # noqa: TRY301
        except ValueError as error:
            raise ValueError(f"the value of '{name}' can't be read: {error}") from None
    if password is None:
        raise ValueError(f"'{name}' has no hash scrypt$SALT$DIGEST")
    return User(password, scram)


def _keys(iterations: int, salt: bytes, stored: bytes, server: bytes) -> ScramKeys:
    if not ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
        raise ValueError(f"scram-sha-256 has {ITERATIONS_MIN} to {_ITERATIONS_MAX} iterations")
    if len(stored) != _KEY_BYTES or len(server) != _KEY_BYTES:
        raise ValueError(f"a key of scram-sha-256 has {_KEY_BYTES} bytes")
    return ScramKeys(iterations, salt, stored, server)


def _secret(value: object) -> bytes:
    kind, _, text = value.partition("$") if isinstance(value, str) else ("", "", "")
    if kind != "secret":
        raise ValueError("the line without a name is no secret$BASE64")
    return _bytes(text)


def _bytes(text: str) -> bytes:
    found = b64decode(text, validate=True)
    if not found:
        raise ValueError("a part of it is empty")
    return found


def _text(part: bytes) -> str:
    return b64encode(part).decode()


def _forms(password: str) -> list[str]:
    """Return the prepared password, and the password as it came if it differs: older hashes are
    made of the latter."""
    try:
        return list(dict.fromkeys((saslprep(password), password)))
    except ValueError:
        return [password]


def _scrypt(password: str, salt: bytes, size: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=_N, r=_R, p=_P, dklen=size)
