"""Requests and answers between the gateway and the process that checks messages.

They go over a stream socket, as `ingest.processes.child_process` does: a length, that many bytes of
MessagePack, and after a `CheckRun` the messages' bytes.
"""

from typing import TypeAlias

import msgspec

from distributary.pipeline.schemas.schema_version import LIMITS, SchemaLimits

#: Versions of which the process keeps readers; beyond it forgets all, and so does the gateway's
#: list of them.
VERSIONS_MAX = 256


class SetLimits(msgspec.Struct, frozen=True, tag=True):
    """Limits of schemas; the first request."""

    definition_bytes_max: int = LIMITS.definition_bytes_max
    columns_max: int = LIMITS.columns_max
    depth_max: int = LIMITS.depth_max

    @property
    def limits(self) -> SchemaLimits:
        return SchemaLimits(self.definition_bytes_max, self.columns_max, self.depth_max)


class CheckVersion(msgspec.Struct, frozen=True, tag=True):
    """Check that this version (a text of `schema_text`) is valid, and may follow the one of
    `before` (empty: there is none)."""

    topic: str
    text: str
    before: str


class DefineVersion(msgspec.Struct, frozen=True, tag=True):
    """Define a version; runs name it by `name` from now on. `others`: the topic's other
    versions."""

    name: str
    topic: str
    text: str
    others: tuple[str, ...]


class CheckRun(msgspec.Struct, frozen=True, tag=True):
    """Read messages by a version; `lengths` has a uint32 for each, their bytes follow."""

    name: str
    lengths: bytes


CheckRequest: TypeAlias = SetLimits | CheckVersion | DefineVersion | CheckRun


class CheckAnswer(msgspec.Struct, frozen=True):
    """Answer to a request. `error`: why the version is wrong, in a sentence. `problems`: why it may
    not follow the one before. `columns`: its columns, as Spark's schema in JSON. `misfits`: the
    place in the run of each message that doesn't fit, and why, in a sentence."""

    error: str = ""
    problems: tuple[str, ...] = ()
    columns: str = ""
    misfits: tuple[tuple[int, str], ...] = ()
