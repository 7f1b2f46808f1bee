"""The records of all logs of a home, each with tables of its own."""

from dataclasses import dataclass, field
from pathlib import Path

from distributary.ingest.console.log_rows.record_limits import RecordLimits
from distributary.ingest.console.records.home_records import HomeRecords
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import MAIN, log_below
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.lake.disk_lake import DiskLake, disk_lake


@dataclass(frozen=True, slots=True)
class LakeRecords:
    """The records of `main`, or of the only log, and of others when they are asked for."""

    main: HomeRecords
    lake: DiskLake | None
    limits: RecordLimits
    _others: dict[str, HomeRecords] = field(default_factory=dict)

    @classmethod
    def of_home(cls, main: HomeRecords, home: Home | None, limits: RecordLimits) -> "LakeRecords":
        """`home` is None where it can't be reached: then its log is one."""
        return cls(main, None if home is None else disk_lake(home.root), limits)

    @property
    def logs(self) -> tuple[str, ...]:
        """The logs that there are, ascending; of a home that is no lake `main` alone. Raises
        StoreError."""
        return (MAIN,) if self.lake is None else tuple(sorted(self.lake.placement().logs))

    def log_of(self, word: str) -> str | None:
        """The log of a topic, a queue or a pattern, by the word of the log for it; None: its topics
        may be in several. Raises StoreError."""
        if self.lake is None:
            return MAIN
        log, *more = self.lake.placement().logs_of_pattern(word)
        return None if more else log

    def of(self, log: str) -> HomeRecords:
        """The records of a log. The caller makes sure that they are those of the gateway that it
        asks. Raises InvalidRequest for a log that isn't there, StoreError."""
        if log == MAIN or self.lake is None:
            return self.main
        found = self._others.get(log)
        if found is None:
            if log not in self.logs:
                raise InvalidRequest(f"there is no log '{log}' in {self.lake.address}")
            home = Home(Path(log_below(self.lake.address, log)))
            records = HomeRecords(LocalStore(home.topic_log), home, self.limits)
            found = self._others.setdefault(log, records)
        return found
