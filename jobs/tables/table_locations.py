"""Places where a query on the log reads and writes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableLocations:
    """A job's places: paths, or addresses of an object store."""

    log: str
    tables: str
    checkpoint: str

    def table(self, name: str) -> str:
        return f"{self.tables}/{name}"
