"""Output of `distributary verify` and `distributary info` on a screen."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from distributary.ingest.cli.options.wide_tables import print_table
from distributary.pipeline.model.address import PREFIXES, is_temporary, kind_of_topic
from distributary.pipeline.tables.journal.journal import Cut
from distributary.pipeline.tables.verify.check import counted
from distributary.pipeline.tables.verify.home_info import HomeInfo, TopicLine
from distributary.pipeline.tables.verify.verify_home import Report

_COLOURS = {"sound": "green", "not sound": "red", "not checked": "yellow"}


@contextmanager
def progress_bar(*, hidden: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar on stderr if that is a terminal; yield a function for the task, done and total."""
    errors = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    disable = hidden or not errors.is_terminal
    with Progress(
        *columns, TimeElapsedColumn(), console=errors, transient=True, disable=disable
    ) as bar:
        task = bar.add_task("", total=None)

        def progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield progress


def show_report(report: Report, cut: Cut | None, *, repair: bool) -> None:
    """Print a line for each check, then all sentences about them, then the verdict."""
    console = Console()
    if cut is not None:
        console.print(
            f"The journal had a torn frame of group {cut.group} in {cut.path} at offset "
            f"{cut.offset}. It is cut; it was never accepted, so nothing is lost.",
            soft_wrap=True,
        )
    elif repair:
        console.print("The journal has no torn tail; nothing was cut.")
    table = Table("check", "", "looked at", box=SIMPLE)
    for check in report.checks:
        verdict = check.verdict.value
        table.add_row(check.name, f"[{_COLOURS[verdict]}]{verdict}[/]", check.counted)
    console.print(table)
    for check in report.checks:
        for sentence in check.problems:
            console.print(f"{check.name}: {sentence}", style="red", markup=False, soft_wrap=True)
        for sentence in check.notes:
            console.print(f"{check.name}: {sentence}", markup=False, soft_wrap=True)
    at = "" if report.version is None else f" as of version {report.version:,} of its log"
    verdict = "sound" if report.sound else "not sound"
    console.print(f"{report.home} is {verdict}{at}.", markup=False, soft_wrap=True)


def _folded(topics: Iterable[TopicLine]) -> Iterator[TopicLine]:
    """Yield the topics, temporary ones of a kind in one line: there may be one for each request."""
    temporary: dict[str, list[TopicLine]] = {}
    for one in topics:
        if is_temporary(one.topic):
            temporary.setdefault(PREFIXES[kind_of_topic(one.topic)], []).append(one)
        else:
            yield one
    for prefix, same in temporary.items():
        yield TopicLine(
            f"{prefix} ({len(same):,} of them)",
            sum(one.messages for one in same),
            min(one.first for one in same),
            max(one.last for one in same),
            sum(one.bytes for one in same),
        )


def show_home_info(found: HomeInfo) -> None:
    """Print a home's contents as tables, and a line each for the journal and the log."""
    console = Console()
    topics = _numbers("topic", "messages", "first", "last", "bytes")
    for topic in _folded(found.topics):
        _row(topics, topic.topic, topic.messages, topic.first, topic.last, topic.bytes)
    subscriptions = _numbers(
        "subscription", "topic", "floor", "settled above", "backlog", "", "policy"
    )
    for one in found.subscriptions:
        paused = "paused" if one.paused else ""
        numbers = one.floor, one.settled, one.backlog
        _row(subscriptions, one.subscription, one.topic, *numbers, paused, one.policy)
    files = _numbers("record", "tier", "files", "rows", "bytes")
    spark = _numbers("Spark's table", "version", "as of log version")
    for line in found.spark:
        _row(spark, line.table, line.version, line.log_version)
    if found.table is not None:
        for part in found.table.files:
            _row(files, part.record, part.tier, part.files, part.rows, part.bytes)
    for table in (topics, subscriptions, files, spark):
        if table.row_count:
            print_table(table)
    journal = found.journal
    console.print(
        f"journal: {counted(segments=journal.segments, frames=journal.frames)} of "
        f"{journal.bytes:,} bytes; not in the table yet: {counted(groups=journal.uncommitted)} of "
        f"{journal.uncommitted_bytes:,} bytes",
        soft_wrap=True,
    )
    if found.table is None:
        console.print("topic_log: there is none yet")
        return
    if found.prepared:
        ids = ", ".join(found.prepared)
        console.print(f"prepared transactions: {ids}", soft_wrap=True, markup=False)
    log = found.table
    checkpoint = "none yet" if log.checkpoint is None else f"of version {log.checkpoint:,}"
    console.print(
        f"topic_log: version {log.version:,}, group {log.group:,}, next sequence "
        f"{log.next_sequence:,}, {counted(log_entries=log.entries)}, checkpoint "
        f"{checkpoint}, oldest day "
        f"{log.oldest_day or 'none'}",
        soft_wrap=True,
    )


def _numbers(*columns: str) -> Table:
    """Return a table whose first column, and every column of names, is text, and others numbers."""
    table = Table(box=SIMPLE)
    for name in columns:
        words = name in ("topic", "subscription", "record", "Spark's table", "", "policy")
        table.add_column(
            name,
            justify="left" if words else "right",
            overflow="fold",
            no_wrap=name in ("topic", "subscription", "Spark's table"),
        )
    return table


def _row(table: Table, *cells: str | int | None) -> None:
    table.add_row(*(f"{c:,}" if isinstance(c, int) else escape(c or "") for c in cells))
