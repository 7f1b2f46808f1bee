"""What the gateway and the process that checks messages say to each other.

Over a stream socket, as `ingest.processes.child_process` does: a length, so many bytes of
MessagePack, and behind a `CheckRun` the messages' bytes.
"""

from typing import TypeAlias

import msgspec

from distributary.pipeline.schemas.schema_version import LIMITS, SchemaLimits

#: Versions that the process keeps readers of; then it begins anew, and so does the gateway's list
#: of them.
VERSIONS_MAX = 256


class SetLimits(msgspec.Struct, frozen=True, tag=True):
    """What schemas may become; said first."""

    definition_bytes_max: int = LIMITS.definition_bytes_max
    columns_max: int = LIMITS.columns_max
    depth_max: int = LIMITS.depth_max

    @property
    def limits(self) -> SchemaLimits:
        return SchemaLimits(self.definition_bytes_max, self.columns_max, self.depth_max)


class CheckVersion(msgspec.Struct, frozen=True, tag=True):
    """Whether this version (a text of `schema_text`) is right, and may follow that of `before`
    (empty: there is none)."""

    topic: str
    text: str
    before: str


class DefineVersion(msgspec.Struct, frozen=True, tag=True):
    """Runs name this version by `name` from now on; `others` are the topic's other versions."""

    name: str
    topic: str
    text: str
    others: tuple[str, ...]


class CheckRun(msgspec.Struct, frozen=True, tag=True):
    """Messages to be read by a version; `lengths` is one uint32 for each, their bytes follow."""

    name: str
    lengths: bytes


CheckRequest: TypeAlias = SetLimits | CheckVersion | DefineVersion | CheckRun


class CheckAnswer(msgspec.Struct, frozen=True):
    """`error`: the version is wrong, in a sentence. `problems`: why it may not follow the one
    before. `columns`: its columns, as Spark's schema in JSON. `misfits`: the place of each message
    that doesn't fit, among those of the run, and a sentence."""

    error: str = ""
    problems: tuple[str, ...] = ()
    columns: str = ""
    misfits: tuple[tuple[int, str], ...] = ()
