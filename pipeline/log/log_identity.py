"""The identity of a `topic_log`: the table, and one of its versions by that version's commit.

An address doesn't identify a table: the same path may lead to another home on another machine, or
to a copy. So a reader that uses sequences from a gateway first compares the table at that address
with the gateway's identity.

Rule 1: tables that were created separately differ in Delta's table id. A copy has the same id.
Rule 2: copies differ in the bytes of a version's entry, as each of our commits has a random id in
        it. Two tables with the same entry have the same messages up to that version.
Rule 3: old entries are cleaned up some day, the entry of the newest version never.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Self

from distributary.pipeline.errors import InvalidRequest, StoreError

#: Bytes of an entry's digest.
DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """A table by Delta's id (`table`), one of its versions, and the digest of that version's entry
    (`entry`), in hexadecimal digits."""

    table: str
    version: int
    entry: str

    @classmethod
    def of(cls, said: object) -> Self:
        """Return the identity that `body` wrote. Raises InvalidRequest for anything else."""
        match said:
            case {"id": str(table), "version": int(version), "entry": str(entry)}:
                return cls(table, version, entry)
        raise InvalidRequest(
            "the gateway doesn't say which topic_log is its own: it is of an earlier version. "
            "Its messages aren't read without that"
        )

    def body(self) -> Mapping[str, str | int]:
        """Return the identity as a map, for answers and files."""
        return {"id": self.table, "version": self.version, "entry": self.entry}

    def require(self, where: str, entry: bytes | None) -> None:
        """Raise StoreError unless the table that lies `where` is this one.

        `entry` is the entry of `version` there, None if there is none.
        """
        if entry is not None and digest(entry) == self.entry:
            return
        why = f"has no version {self.version}" if entry is None else "is another one, or a copy"
        raise StoreError(
            f"the topic_log in {where} isn't the gateway's: it {why}. Nothing was read there; say "
            "where the gateway's own lies, as it is seen from here"
        )


def digest(entry: bytes) -> str:
    """Return the digest of a version's entry."""
    return blake2b(entry, digest_size=DIGEST_BYTES).hexdigest()
