"""Where a query on the log reads and writes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableLocations:
    """Where the job reads and writes: paths, or addresses of an object store."""

    log: str
    tables: str
    checkpoint: str

    def table(self, name: str) -> str:
        return f"{self.tables}/{name}"


def on_a_disk(path: str) -> bool:
    """Whether a path leads to a file system of this machine, and of those that work for it."""
    return "://" not in path
