"""Where everything that a gateway keeps lies. Who owns it is said in `pipeline.tables.owner`.

Whoever writes anything under a home owns it.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one gateway, by name of what lies in it. It makes no folder by itself.

    Its addresses are absolute, however `root` was typed: what a gateway tells of them is used by
    processes with other working folders.
    """

    root: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", self.root.absolute())

    @property
    def lock_path(self) -> Path:
        return self.root / "lock"

    @property
    def takeover_path(self) -> Path:
        """Whoever changes what stands under `lock_path` holds a flock on this one meanwhile."""
        return self.root / "lock.takeover"

    @property
    def journal_dir(self) -> Path:
        return self.root / "journal"

    @property
    def marks(self) -> Path:
        """How far each durable subscription was delivered (`pipeline.tables.marks`)."""
        return self.root / "dispatch"

    @property
    def topic_log(self) -> Path:
        return self.root / "tables" / "topic_log"

    @property
    def cursors(self) -> Path:
        return self.root / "tables" / "cursors"

    @property
    def acks(self) -> Path:
        return self.root / "tables" / "acks"

    @property
    def messages(self) -> Path:
        return self.root / "tables" / "messages"

    @property
    def spark_tables(self) -> Path:
        """The folder of the tables that Spark writes, each by its name."""
        return self.root / "tables"

    def checkpoint(self, name: str) -> Path:
        """Where the Spark query `name` keeps its checkpoint."""
        return self.root / "checkpoints" / name
