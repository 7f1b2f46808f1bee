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
    """Equal ids are one transaction. `format` says who made the other two: the id of the global
    transaction, and the branch of it that is ours."""

    format: int
    transaction: bytes
    branch: bytes

    @property
    def text(self) -> str:
        """How it is written everywhere, e.g. `131077:0a1b:01`; there is one text for each id."""
        return f"{self.format}:{self.transaction.hex()}:{self.branch.hex()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The id with this text. Raises InvalidRequest for what is none."""
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
        """The log that decides the transaction of a lake's branch; empty, or replacement
        characters, where the id is none that a gateway made."""
        return self.branch.decode(errors="replace")


def is_of_lake(text: str) -> bool:
    """Whether gateways made the id with this text: no transaction manager ends what is prepared
    under it."""
    return text.startswith(_OF_LAKES)


def decision_id(unique: bytes) -> str:
    """By which the log that decides a transaction of several logs knows it. `unique`: bytes that
    never come twice."""
    return GlobalId(OF_LAKES, unique, b"").text


def branch_id(decision: str, decider: str) -> str:
    """Under which the other logs prepare their parts of it: one id for all, as each has one."""
    return GlobalId(OF_LAKES, GlobalId.parse(decision).transaction, decider.encode()).text


def decision_of(branch: GlobalId) -> str:
    """Which decision a branch waits for."""
    return decision_id(branch.transaction)
