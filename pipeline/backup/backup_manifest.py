"""The manifest of a backup: the files of a home, and the pieces of each file.

A backup is a folder of *pieces*, each named by the SHA-256 of its bytes, and one manifest. A piece
never changes and may belong to many files, so a piece of a former backup isn't written again.

Rule 1: a backup is what its manifest names. The manifest comes last and appears whole.
Rule 2: the first line has the format and the digest of the rest, so that damage and a newer format
        are found before any of it is used.
Rule 3: every path lies below the folder that is restored.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Self

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log.log_identity import LogIdentity

#: For a home on a disk, and for one on a store: an older program would restore that to a disk.
FORMAT: Final = 1
FORMAT_OF_STORES: Final = 2
#: Bytes of a piece, at most: the unit in memory, and of a sync.
PIECE_BYTES: Final = 8 << 20
#: First part of the paths of files that settings name; all other paths lie below the home.
SETTINGS: Final = "settings"
_KIND: Final = "distributary backup"


@dataclass(frozen=True, slots=True)
class BackedFile:
    """One file: its path with `/`, its bytes, its permission bits, its pieces in order."""

    path: str
    size: int
    mode: int
    pieces: tuple[str, ...]

    @property
    def of_settings(self) -> bool:
        """Whether it is a file of the settings, not of the home."""
        return self.path.startswith(f"{SETTINGS}/")


@dataclass(frozen=True, slots=True)
class BackupPoint:
    """The copied state: when reading began (seconds since 1970), the version of `topic_log`, the
    last group and the first free sequence of its table and journal together."""

    began: float
    log: LogIdentity
    last_group: int
    next_sequence: int

    def body(self) -> dict[str, object]:
        """Return the point for JSON."""
        return {
            "began": self.began,
            "log": self.log.body(),
            "last_group": self.last_group,
            "next_sequence": self.next_sequence,
        }

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """Read the result of `body`. Raises ValueError, KeyError, TypeError."""
        return cls(
            float(body["began"]),
            LogIdentity.of(body["log"]),
            int(body["last_group"]),
            int(body["next_sequence"]),
        )


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """A whole backup; `on_a_store`: of a home without a disk."""

    point: BackupPoint
    files: tuple[BackedFile, ...]
    on_a_store: bool = False

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def require_place(self, home: str, *, on_a_store: bool) -> None:
        """Raise InvalidRequest unless the home at this address is of the same kind (disk or store)
        as the backup's: their journals differ."""
        if on_a_store != self.on_a_store:
            was = "on an object store" if self.on_a_store else "on a disk"
            raise InvalidRequest(
                f"the backup is of a home {was}, which {home} isn't: name another folder or home"
            )

    @property
    def pieces(self) -> frozenset[str]:
        return frozenset(piece for file in self.files for piece in file.pieces)

    def encode(self) -> bytes:
        """Return the manifest's bytes: two lines of JSON."""
        files = [[one.path, one.size, one.mode, list(one.pieces)] for one in self.files]
        format_ = FORMAT_OF_STORES if self.on_a_store else FORMAT
        return sealed(_KIND, format_, self.point.body() | {"files": files})

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """Read a manifest by `encode`; errors name `where`. Raises InvalidRequest for another
        format or kind, StoreError for a damaged one."""
        with damage_told(where):
            format_, body = unsealed(data, where, _KIND, FORMAT_OF_STORES)
            return cls._of(body, on_a_store=format_ == FORMAT_OF_STORES)

    @classmethod
    def _of(cls, body: Mapping[str, Any], *, on_a_store: bool) -> Self:
        files = tuple(
            BackedFile(_inside(path), int(size), int(mode), tuple(map(_digest, pieces)))
            for path, size, mode, pieces in body["files"]
        )
        return cls(BackupPoint.of(body), files, on_a_store)


def sealed(kind: str, format_: int, body: Mapping[str, object]) -> bytes:
    """Return a manifest's bytes: two lines of JSON; the first describes the second."""
    text = json.dumps(body, separators=(",", ":")).encode()
    head = {"kind": kind, "format": format_, "sha256": digest_of(text)}
    return json.dumps(head).encode() + b"\n" + text + b"\n"


def kind_of(data: bytes) -> str:
    """Return the kind that a manifest's first line tells; empty for other bytes."""
    with suppress(ValueError, KeyError, TypeError):
        return str(json.loads(data.partition(b"\n")[0])["kind"])
    return ""


def unsealed(data: bytes, where: str, kind: str, newest: int) -> tuple[int, Mapping[str, Any]]:
    """Return format and body of a manifest by `sealed`. Raises InvalidRequest for another kind or a
    newer format, ValueError, KeyError and TypeError for damage."""
    first, _, rest = data.partition(b"\n")
    text = rest.removesuffix(b"\n")
    head = json.loads(first)
    if head["kind"] != kind:
        raise InvalidRequest(f"{where} is no manifest of a {kind}. Name another folder")
    format_ = int(head["format"])
    if format_ > newest:
        raise InvalidRequest(
            f"{where} is of a newer format, {format_}; this program reads up to {newest}. Use the "
            "version of the program that made the backup, or a later one"
        )
    if head["sha256"] != digest_of(text):
        raise ValueError("its digest is another one")
    return format_, json.loads(text)


@contextmanager
def damage_told(where: str) -> Iterator[None]:
    """Turn the errors of a damaged manifest into a StoreError."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{where} is damaged: {error}. Restore from another backup; a new one goes to another "
            "folder"
        ) from error


def digest_of(data: bytes | memoryview) -> str:
    """Return the name of a piece with these bytes."""
    return sha256(data).hexdigest()


def _inside(path: str) -> str:
    if {"", ".", ".."} & set(path.split("/")):
        raise ValueError(f"the path {path!r} leads out of the home")
    return path


def _digest(piece: str) -> str:
    if len(piece) != sha256().digest_size * 2 or not set(piece) <= set("0123456789abcdef"):
        raise ValueError(f"{piece!r} is no piece")
    return piece
