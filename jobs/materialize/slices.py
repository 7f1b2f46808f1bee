"""New rows of the log, cut into slices that are small enough for one step.

Near: all entries since the last step are there and few, so the files are read that they added. No
search is needed, and files that upkeep replaces meanwhile stay readable as long as the entry.
Far: the log is read by group, as of a version; so are the rows of entries that are gone.

Rule: a slice is whole groups, and ends where a version ends whenever that is known.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from pyspark.sql.types import StructType

from distributary.jobs.session.job_settings import MaterializeSettings
from distributary.jobs.tables.delta_files import Entries, files_at
from distributary.jobs.tables.folders import local
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.transforms.materialize.log_versions import JOURNAL, log_versions

#: Pieces in which groups are counted, to cut slices between them.
PIECES = 10_000


@dataclass(frozen=True, slots=True)
class LogVersion:
    """A version of topic_log, the last group in it, and when it was committed (milliseconds)."""

    version: int
    group: int
    made_at: int


@dataclass(frozen=True, slots=True)
class Slice:
    """Groups up to `last_group`, which are wholly in version `log_version`.

    `files` have its rows, if `far` with other rows; None if Spark is to find them in the log as of
    `as_of`.
    """

    last_group: int
    log_version: int
    as_of: int
    versions: Sequence[LogVersion] = ()
    files: Sequence[AddedFile] | None = None
    rows_about: int = 0
    far: bool = False

    def has(self, record: str) -> bool:
        return self.files is None or any(file.record == record for file in self.files)

    def bytes_of(self, record: str) -> int:
        """Bytes of its files, 0 if unknown."""
        return sum(file.size for file in self.files or () if file.record == record)


@dataclass(slots=True)
class Log:
    """topic_log, as the job reads it."""

    spark: SparkSession
    path: str
    schema: StructType = field(init=False)
    entries: Entries = field(init=False)

    def __post_init__(self) -> None:
        self.entries = Entries(self.spark, self.path)
        self.schema = self.spark.read.format("delta").load(self.path).schema

    def files(self, version: int) -> list[AddedFile]:
        """Return all files as of a version."""
        added = "\n".join(files_at(self.spark, self.path, version)).encode()
        return list(commits.parse(added).added)

    def has(self, file: AddedFile) -> bool:
        """Whether a file is still there; on a disk."""
        return (Path(self.path) / file.path).exists()

    def rows(self, part: Slice, record: str, after: int) -> DataFrame:
        """Return the rows of a slice of one kind, in groups after `after`. Raises AnalysisException
        when a file is gone."""
        groups = (F.col("group") > after) & (F.col("group") <= part.last_group)
        if part.files is None:
            return self.as_of(part.as_of).where((F.col("record") == record) & groups)
        paths = [f"{self.path}/{file.path}" for file in part.files if file.record == record]
        if not paths:
            return self.spark.createDataFrame([], self.schema)
        read = self.spark.read.schema(self.schema).option("basePath", self.path)
        return read.parquet(*paths).where(groups)

    def as_of(self, version: int) -> DataFrame:
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.path)

    def versions(self, after: int, upto: int) -> list[LogVersion]:
        """Return the versions after one and up to another that have an entry, ascending."""
        entries = self.spark.read.text(f"{self.path}/_delta_log/*.json")
        found = log_versions(entries).where(F.col("log_version").between(after + 1, upto))
        rows = found.select("log_version", "group", F.unix_millis("committed_at").alias("at"))
        return sorted(
            (LogVersion(row.log_version, row.group, row.at) for row in rows.collect()),
            key=lambda one: one.version,
        )


@dataclass(frozen=True, slots=True)
class Position:
    """The tables' position: the last `group` that they have, and the `version` of the log that they
    have wholly: -1 for none yet, None if it isn't known."""

    group: int
    version: int | None


def slices(log: Log, since: Position, upto: int, settings: MaterializeSettings) -> Iterator[Slice]:
    """Yield the slices between a position and a version of the log, in order."""
    if since.version is not None and upto - since.version <= settings.near_versions:
        near = list(_near(log, since, upto, settings))
        whole = [part for part in near if part is not None]
        if len(whole) == len(near) and _readable(log, whole):
            yield from whole
            return
    yield from _far(log, since, upto, settings)


def _readable(log: Log, near: Sequence[Slice]) -> bool:
    """Whether all files are still there."""
    if local(log.path) is not None:
        return all(log.has(file) for part in near for file in part.files or ())
    try:
        for part in near:
            for record in {file.record for file in part.files or ()}:
                log.rows(part, record, 0)
    except AnalysisException:
        return False
    return True


def _near(
    log: Log, since: Position, upto: int, settings: MaterializeSettings
) -> Iterator[Slice | None]:
    """Yield slices of whole versions; None in the place of an entry that is gone."""
    group, files, versions = since.group, list[AddedFile](), list[LogVersion]()
    assert since.version is not None  # noqa: S101
    for number in range(since.version + 1, upto + 1):
        said = log.entries.text(number)
        if said is None:
            yield None
            return
        one, added = _entry(number, said, group)
        size = sum(file.size for file in files + added)
        rows = sum(file.rows for file in files + added)
        if files and (size > settings.slice_bytes or rows > settings.slice_rows):
            yield _slice(versions, files, upto)
            files, versions = [], []
        group = one.group
        versions.append(one)
        files += added
    if group > since.group:
        yield _slice(versions, files, upto)


def _slice(versions: Sequence[LogVersion], files: Sequence[AddedFile], upto: int) -> Slice:
    last = versions[-1]
    about = sum(file.rows for file in files)
    return Slice(last.group, last.version, upto, tuple(versions), tuple(files), about)


def _entry(number: int, said: str, group: int) -> tuple[LogVersion, list[AddedFile]]:
    entry = commits.parse(said.encode())
    group = entry.transactions.get(JOURNAL, group)
    return LogVersion(number, group, entry.made_at), list(entry.changed)


def _far(log: Log, since: Position, upto: int, settings: MaterializeSettings) -> Iterator[Slice]:
    rows = log.as_of(upto).where(F.col("group") > since.group)
    ends = _ends(rows, settings.slice_rows)
    if not ends:
        return
    files = log.files(upto) if local(log.path) is not None else None
    versions = log.versions(-1 if since.version is None else since.version, upto)
    groups = [one.group for one in versions]
    done, version, first = since.group, max(since.version or 0, 0), 0
    for end in ends:
        past, group = bisect_right(groups, end), end
        if end == ends[-1]:
            past, version, group = len(versions), upto, max([end, *groups[-1:]])
        elif past > first and groups[past - 1] > done:
            group, version = groups[past - 1], versions[past - 1].version
        some = None if files is None else _between(files, done, group)
        yield Slice(group, version, upto, tuple(versions[first:past]), some, far=True)
        done, first = group, past


def _between(files: Sequence[AddedFile], after: int, upto: int) -> tuple[AddedFile, ...]:
    """Return the files that may have rows of groups after one and up to another."""
    return tuple(
        file
        for file in files
        if file.group_low is None
        or file.group_high is None
        or (file.group_high > after and file.group_low <= upto)
    )


def _ends(rows: DataFrame, slice_rows: int) -> list[int]:
    """Return the last groups of slices that have about `slice_rows` messages and deliveries."""
    span = rows.agg(F.min("group").alias("first"), F.max("group").alias("last")).collect()[0]
    if span.first is None:
        return []
    width = (span.last - span.first) // PIECES + 1
    piece = F.floor((F.col("group") - span.first) / width)
    counted = (
        rows.groupBy(piece.alias("piece"))
        .agg(F.sum(F.coalesce(F.size("sequences"), F.lit(1))).alias("count"))
        .collect()
    )
    ends, count = [], 0
    for one in sorted(counted, key=lambda row: row.piece):
        if count and count + one["count"] > slice_rows:
            ends.append(span.first + one.piece * width - 1)
            count = 0
        count += one["count"]
    return [*ends, span.last]
