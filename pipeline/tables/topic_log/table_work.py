"""Work on the rows of `topic_log`: encoding, paging, statistics, upkeep.

All of it needs Arrow. `TopicLog` imports this module when there are rows to work on; before that no
part of a gateway imports Arrow.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from distributary.pipeline.dispatch.priority_index import Ahead
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.tables.arrow.arrow_types import without_pandas
from distributary.pipeline.tables.delta.checkpoint import Identity
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.table_log import TableHead
from distributary.pipeline.tables.delta.table_writer import TableWriter
from distributary.pipeline.tables.reading import never_owed, table_statistics
from distributary.pipeline.tables.reading.paging import Pager
from distributary.pipeline.tables.reading.table_statistics import Volume
from distributary.pipeline.tables.topic_log import commit_files
from distributary.pipeline.tables.topic_log.commit_content import CommitFiles
from distributary.pipeline.tables.upkeep.table_upkeep import Steps, day_of
from distributary.pipeline.tables.upkeep.upkeep_limits import UpkeepLimits


class TableWork:
    """Work on one table. `pager` is for the reader thread, `steps` for the committer thread."""

    def __init__(
        self, path: Path, writer: TableWriter, head: TableHead, limits: UpkeepLimits
    ) -> None:
        without_pandas()
        self._store = writer.store
        self.pager = Pager(path, self._store.parquet)
        self.steps = Steps(writer, Identity.of(head), limits)

    def encode(self, views: Sequence[memoryview], group: int, sequence: int) -> CommitFiles | None:
        """As `commit_files.encode`."""
        return commit_files.encode(views, group=group, sequence=sequence)

    def priority_statistics(self, files: Sequence[AddedFile], since: int) -> Iterator[Ahead]:
        """As `table_statistics.priority_statistics`, of files of messages."""
        return table_statistics.priority_statistics(self._store, files, since)

    def volumes(self, files: Sequence[AddedFile], since: int) -> Iterator[Volume]:
        """As `table_statistics.volumes`, of files of messages."""
        return table_statistics.volumes(self._store, files, since)

    def first_at(self, files: Sequence[AddedFile], day_time: int, time: int) -> int | None:
        """As `table_statistics.first_at`, of any files; `day_time` is a time of the day of `time`,
        or of the nearest day that there is."""
        messages = table_statistics.messages_of(files)
        return table_statistics.first_at(self._store, messages, time, day=day_of(day_time))

    def never_owed(
        self,
        uri: str,
        settlements: Callable[[], Iterator[pq.ParquetFile]],
        subscription: str,
        since: int,
    ) -> dict[Outcome, "array[int]"]:
        """As `never_owed.never_owed`."""
        return never_owed.never_owed(uri, settlements, subscription, since)
