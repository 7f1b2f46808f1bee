"""The manifest of a lake's backup: its logs, and the files of the lake outside of logs.

Rule 1: it comes last and appears whole, so it names a log only if that log's backup was whole.
Rule 2: a log's own backup may be later than the manifest's, when the next backup of the lake was
        interrupted: each log is copied at a moment of its own, and no promise spans logs. An
        earlier backup, one of another log or a missing one is damage.
Rule 3: the next backup has each log that this one has: a log isn't taken away, but its disk may be,
        and then it looks like a log that was never served.
"""

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Self

import msgspec

from distributary.pipeline.backup.backup_manifest import (
    BackupPoint,
    damage_told,
    kind_of,
    sealed,
    unsealed,
)
from distributary.pipeline.errors import StoreError
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.lake.placement_text import read_placement
from distributary.pipeline.log_names import log_below

FORMAT: Final = 1
_KIND: Final = "distributary backup of a lake"


@dataclass(frozen=True, slots=True)
class LakeManifest:
    """A whole backup of a lake: the state of each log that was ever served, by its name."""

    placement: Placement
    secret: str
    logs: Mapping[str, BackupPoint]

    def encode(self) -> bytes:
        """Return the manifest's bytes."""
        return sealed(
            _KIND,
            FORMAT,
            {
                "placement": json.loads(msgspec.json.encode(self.placement)),
                "secret": self.secret,
                "logs": {log: point.body() for log, point in self.logs.items()},
            },
        )

    @classmethod
    def decode(cls, data: bytes, where: str) -> Self:
        """Read a manifest by `encode`; errors name `where`. Raises InvalidRequest for a newer
        format, StoreError for a damaged one."""
        with damage_told(where):
            _, body = unsealed(data, where, _KIND, FORMAT)
            placement = read_placement(json.dumps(body["placement"]).encode(), where)
            logs = {str(log): BackupPoint.of(said) for log, said in body["logs"].items()}
            return cls(placement, str(body["secret"]), logs)

    def require(self, log: str, there: BackupPoint | None, where: str) -> None:
        """Raise StoreError unless a log's backup, `there`, is this manifest's or a later one."""
        due = self.logs[log]
        if there is None:
            why = "is gone"
        elif there.log.table != due.log.table:
            why = "is of another log"
        elif (there.last_group, there.log.version) < (due.last_group, due.log.version):
            why = "is older than that of the lake"
        else:
            return
        raise StoreError(
            f"{where}, the backup of the log {log}, {why}: the folder wasn't copied whole. Copy it "
            "again, or restore from another backup; nothing was restored"
        )

    def require_present(self, served: AbstractSet[str], lake: str) -> None:
        """Raise StoreError unless the lake at this address still has each of these logs, of which
        `served` are there."""
        if lost := self.logs.keys() - served:
            log = min(lost)
            raise StoreError(
                f"{log_below(lake, log)} has no files, and the last backup has the log {log}: see "
                "whether its disk is mounted, or restore it from there. The last backup is as it "
                "was; a backup without that log goes to another folder"
            )


def is_of_lake(data: bytes) -> bool:
    """Whether these are the bytes of a lake's manifest."""
    return kind_of(data) == _KIND
