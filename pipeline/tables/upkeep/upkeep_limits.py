"""Limits of a table's growth, and the result of a step, as numbers alone: the settings and the loop
import them before anything big."""

from typing import Final

import msgspec

#: Commits between two checkpoints: a reader reads at most as many entries beside a checkpoint.
CHECKPOINT_COMMITS: Final = 100


class UpkeepLimits(msgspec.Struct, frozen=True):
    """Limits of a table's growth. `conf/distributary.toml` has the reasons."""

    log_entries_max: int
    log_retention_days: int
    retention_days: int  #: 0: no limit
    removed_bytes_max: int = 4 << 30  #: of files that the table no longer names
    retention_seconds: int = -1  #: beside the days, of settled messages; -1: the days alone
    retention_bytes: int = 0  #: of settled messages; 0: no limit

    @property
    def retains_less(self) -> bool:
        """Whether messages go before their day is over."""
        return self.retention_seconds >= 0 or self.retention_bytes > 0


DEFAULT_LIMITS: Final = UpkeepLimits(18_000, 7, 7)


class Upkeep(msgspec.Struct, frozen=True):
    """Result of one step: `files` were written, merged or removed, with `bytes` in all. `messages`
    were removed from the table."""

    kind: str
    files: int
    bytes: int
    seconds: float
    messages: int = 0


class Owed(msgspec.Struct, frozen=True):
    """The first sequence that any durable subscription may be owed, and the first that any served
    subscription may be."""

    durable: int
    anybody: int
