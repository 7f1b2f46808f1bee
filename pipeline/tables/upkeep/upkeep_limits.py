"""How much of a table is kept, by numbers alone: the settings read them before anything big is
imported."""

from dataclasses import dataclass
from typing import Final

#: Commits between two checkpoints: what a reader must read beside one.
CHECKPOINT_COMMITS: Final = 100


@dataclass(frozen=True, slots=True)
class UpkeepLimits:
    """How much is kept. `conf/distributary.toml` has the reasons."""

    log_entries_max: int
    log_retention_days: int
    retention_days: int  #: 0: for ever
    removed_bytes_max: int = 4 << 30  #: of files that the table has left behind
    retention_seconds: int = -1  #: beside the days, of what nobody is owed; -1: the days alone
    retention_bytes: int = 0  #: of what nobody is owed; 0: however many

    @property
    def retains_less(self) -> bool:
        """Whether messages go before their day is over."""
        return self.retention_seconds >= 0 or self.retention_bytes > 0


DEFAULT_LIMITS: Final = UpkeepLimits(18_000, 7, 7)
