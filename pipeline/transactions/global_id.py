"""The global id of a transaction that a transaction manager ends: the XID of XA.

X/Open's XA specification, section 4.2, and `javax.transaction.xa.Xid`.
"""

import re
from typing import Self

import msgspec

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest

#: Bytes of each of the two parts (XA, section 4.2: MAXGTRIDSIZE, MAXBQUALSIZE).
PART_BYTES_MAX = 64
FORMAT_MAX = 2**31 - 1
#: The format of ids that gateways make, for transactions over several logs of a lake: `Dist`.
OF_LAKES = 0x44697374
_OF_LAKES = f"{OF_LAKES}:"
_TEXT = re.compile(r"(0|[1-9][0-9]{0,9}):((?:[0-9a-f]{2}){1,64}):((?:[0-9a-f]{2}){0,64})")


class GlobalId(msgspec.Struct, frozen=True):
    """Id of a transaction branch; equal ids are the same one. `format` tells the id's maker,
    `transaction` is the global transaction's id, `branch` that of our branch of it."""

    format: int
    transaction: bytes
    branch: bytes

    @property
    def text(self) -> str:
        """The id as text, e.g. `131077:0a1b:01`; there is exactly one text for each id."""
        return f"{self.format}:{self.transaction.hex()}:{self.branch.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of an id. Raises InvalidRequest."""
        found = _TEXT.fullmatch(text)
        if found is None or int(found[1]) > FORMAT_MAX:
            raise InvalidRequest(
                f"{quoted(text)} is no global id of a transaction; one looks like 131077:0a1b:01: "
                f"the format id (0 to {FORMAT_MAX}), then gtrid and bqual in lower-case "
                f"hexadecimal, {PART_BYTES_MAX} bytes each at most"
            )
        return cls(int(found[1]), bytes.fromhex(found[2]), bytes.fromhex(found[3]))

    @property
    def decider(self) -> str:
        """The log that decides the transaction, if a gateway made the id for a branch in a lake;
        of other ids the text is meaningless, perhaps with replacement characters."""
        return self.branch.decode(errors="replace")


def is_of_lake(text: str) -> bool:
    """Whether a gateway made the id with this text: no transaction manager ends a transaction that
    is prepared under it."""
    return text.startswith(_OF_LAKES)


def decision_id(unique: bytes) -> str:
    """Return the id under which the deciding log knows a transaction of several logs. `unique`:
    bytes that are never used twice."""
    return GlobalId(OF_LAKES, unique, b"").text


def branch_id(decision: str, decider: str) -> str:
    """Return the id under which the other logs prepare their parts: the same for all, as each log
    has one part."""
    return GlobalId(OF_LAKES, GlobalId.parse(decision).transaction, decider.encode()).text


def decision_of(branch: GlobalId) -> str:
    """Return the id of the decision that a branch waits for."""
    return decision_id(branch.transaction)
