"""Begins a subscription in the past: it is owed messages published since then, and later ones.

The gateway makes it, durably, and it is live from that moment: history and present come to its
consumers as one, each message once and in order. Spark adds a hint: it finds the messages of the
past that the selector matches and tells the gateway, which then reads no others. Without the hint
the same messages come, later.

Run by `distributary jobs backfill ID ...` or `spark-submit jobs/views/backfill.py ID ...`.
"""

import json
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from distributary.jobs.cli.gateway_options import GatewayFactory, gateway_options
from distributary.jobs.client.lake_logs import log_of
from distributary.jobs.client.live_client import own_log
from distributary.jobs.client.management_client import Client, Gateway, Refused
from distributary.jobs.client.own_tables import require_own
from distributary.jobs.session.job_names import HELP_OPTIONS
from distributary.jobs.session.job_options import (
    execute,
    folder,
    json_option,
    location_options,
    settings_option,
)
from distributary.jobs.session.job_settings import BackfillSettings, load
from distributary.jobs.session.session import session
from distributary.jobs.tables.folders import require_tables
from distributary.jobs.tables.lake_homes import job_home, lake_of
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_position import place
from distributary.pipeline.management.management_messages import CONFLICT, FORBIDDEN, Entity, Verb
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.selector.parser import parse
from distributary.pipeline.subscriptions.hint import Part, cut, packed
from distributary.pipeline.transforms.past.history_matches import Stretch, matches, stretch
from distributary.pipeline.transforms.schema.home_tables import find_tables

#: Bits of a stretch of sequences: too many matches are cut off by whole stretches.
CUT_BITS = 16

EXAMPLES = """
\b
Examples:
  distributary jobs backfill global/united --topic flights --since 2026-03-01 \\
      --selector "carrier = 'UA'" --home build/demo --dry-run
  distributary jobs backfill global/united --topic flights --since 2026-03-01 \\
      --selector "carrier = 'UA'" --home build/demo
  distributary jobs backfill global/united --since 7d --rewind --home build/demo
\b
Exit codes: 0 done, 1 the gateway refused or the job failed, 2 bad arguments or no tables.
"""


@dataclass(frozen=True, slots=True)
class BackfillRequest:
    """Request for a backfill. `rewind`: of an existing subscription, with its own definition.
    `log`: the subscription's log in a lake, if it is known."""

    id: str
    topic: str
    since: str
    selector: str | None = None
    shared: bool | None = None
    from_what_is_there: bool = False
    rewind: bool = False
    log: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Matches of the past, as far as the tables go: their number on each day, the first and the
    last, and the sequences up to `known_to`. `gone`: matches that the log has no more."""

    within: Stretch
    days: dict[str, int]
    first: int | None
    last: int | None
    gone: int
    sequences: "array[int]"
    known_to: int

    @property
    def count(self) -> int:
        return sum(self.days.values())


def look(tables: str, request: BackfillRequest, settings: BackfillSettings) -> Found:
    """Find matches in the tables. Raises InvalidRequest without tables, or for a wrong request."""
    found = find_tables(session(places=[tables]), tables)
    within = stretch(found, place(request.since, time.time_ns() // 1_000))
    selected = matches(found, request.topic, request.selector, within).select("sequence", "day")
    there = F.col("sequence") >= within.log_from
    rows = (
        selected.groupBy("day")
        .agg(
            F.count_if(there).alias("count"),
            F.count_if(~there).alias("gone"),
            F.min(F.when(there, F.col("sequence"))).alias("first"),
            F.max("sequence").alias("last"),
        )
        .orderBy("day")
        .collect()
    )
    days = {row.day.isoformat(): int(row["count"]) for row in rows if row["count"]}
    known_to, sequences = within.stop, array("q")
    if request.selector is not None:
        known_to = _known_to(
            selected.where(there), within, sum(days.values()), settings.matches_max
        )
        sequences = _sequences(selected.where(there & (F.col("sequence") < known_to)))
    return Found(
        within=within,
        days=days,
        first=min((row.first for row in rows if row.first is not None), default=None),
        last=max((row.last for row in rows if row["count"]), default=None),
        gone=sum(row.gone for row in rows),
        sequences=sequences,
        known_to=known_to,
    )


def begin(gateway: Gateway, request: BackfillRequest) -> int:
    """Make the subscription, or rewind it; return its floor. Durable on return. Raises Refused."""
    with Client(gateway) as client:
        if request.rewind:
            to = {"to": request.since}
            done = client.ask(Verb.REWIND, Entity.SUBSCRIPTION, request.id, to, request.log)
            return int(done["floor"])
        said = {
            "topic": request.topic,
            "selector": request.selector,
            "shared": request.shared,
            "since": request.since,
            "from_what_is_there": request.from_what_is_there or None,
        }
        made = client.ask(Verb.CREATE, Entity.SUBSCRIPTION, request.id, said, request.log)
        return int(made["floor"])


def hint(
    gateway: Gateway, request: BackfillRequest, found: Found, floor: int, settings: BackfillSettings
) -> Iterator[Part | Refused]:
    """Tell the gateway the matches, part by part; yield each part that it took, or its refusal."""
    start = max(floor, found.within.known_from)
    about = {"topic": request.topic, "selector": request.selector}
    with Client(gateway) as client:
        for part in cut(start, found.known_to, found.sequences, settings.request_matches):
            said: dict[str, object] = {**about, "start": part.start, "stop": part.stop}
            said["matches"] = packed(part.start, part.sequences)
            try:
                client.ask(Verb.HINT, Entity.SUBSCRIPTION, request.id, said, request.log)
            except Refused as refused:
                if refused.status not in (CONFLICT, FORBIDDEN):
                    raise
                yield refused
                return
            yield part


def _known_to(selected: DataFrame, within: Stretch, count: int, most: int) -> int:
    """Return the sequence up to which there are `most` matches at most."""
    if count <= most:
        return within.stop
    chunk = F.shiftright("sequence", CUT_BITS).alias("chunk")
    left = most
    for row in selected.groupBy(chunk).count().orderBy("chunk").collect():
        left -= row["count"]
        if left < 0:
            return max(int(row.chunk) << CUT_BITS, within.start)
    return within.stop


def _sequences(selected: DataFrame) -> "array[int]":
    column = selected.select("sequence").toArrow().sort_by("sequence")["sequence"]
    return array("q", column.to_numpy().tobytes())


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    return execute(command, argv, "backfill")


@click.command(help=__doc__, epilog=EXAMPLES, context_settings=HELP_OPTIONS)
@click.argument("id_", metavar="ID")
@click.option("--topic", help="Its topic or pattern.")
@click.option("--since", required=True, help="A time, a sequence, or how long ago.")
@click.option("--selector", help="Messages that match this alone.")
@click.option("--shared/--exclusive", default=None, help="Several consumers at once.")
@click.option("--from-what-is-there", is_flag=True, help="Or since the log's begin, if it's later.")
@click.option("--rewind", is_flag=True, help="It is there: owe it again what was since then.")
@click.option("--lake-log", default="", help="The log that is meant, where several have this ID.")
@click.option("--no-hint", is_flag=True, help="Make it, and don't ask the tables.")
@click.option("--dry-run", is_flag=True, help="Say what matches; ask no gateway.")
@location_options
@settings_option
@json_option("What was found and done as one JSON object.")
@gateway_options
def command(
    gateway: GatewayFactory,
    *,
    id_: str,
    topic: str | None,
    since: str,
    selector: str | None,
    shared: bool | None,
    from_what_is_there: bool,
    rewind: bool,
    lake_log: str,
    no_hint: bool,
    dry_run: bool,
    home: str | None,
    log: str | None,
    tables: str | None,
    settings_file: Path | None,
    as_json: bool,
) -> None:
    settings = load(settings_file).backfill
    SubscriptionKey.parse(id_)
    if log is not None:
        raise click.UsageError("topic_log is looked for in the folder of tables; leave --log out")
    if rewind is (topic is not None):
        raise click.UsageError(
            "give --topic for a new subscription, --rewind for one that is there"
        )
    if selector is not None:
        parse(selector)
    asked = None if dry_run and not rewind else gateway()
    if rewind and asked is not None:
        request = _existing(asked, id_, since, lake_log)
    else:
        kept = selector if selector and selector.strip() else None
        placed = lake_log or (_placed(home, str(topic)) if tables is None else "")
        request = BackfillRequest(
            id_, str(topic), since, kept, shared, from_what_is_there, log=placed
        )
    where = _folder(home, tables, request.log)
    if where is not None:
        require_tables(where)
    found = None
    if dry_run or (not no_hint and request.selector is not None):
        where = where or folder(home, tables)
        if asked is not None:
            _require_own(asked, where, request.log)
        found = look(where, request, settings)
    if dry_run or asked is None:
        _report(request, found, None, None, as_json=as_json)
        return
    floor = begin(asked, request)
    told = None
    if found is not None:
        told = _tell(hint(asked, request, found, floor, settings), found, quiet=as_json)
    _report(request, found, floor, told, as_json=as_json)


def _placed(home: str | None, topic: str) -> str:
    """Return the log of a lake that has this topic, or all topics of this pattern; empty where the
    home is no lake. Raises InvalidRequest where they may be in several logs."""
    lake = None if home is None else lake_of(home)
    if lake is None:
        return ""
    logs = lake.placement().logs_of_pattern(topic)
    if len(logs) != 1:
        raise InvalidRequest(
            f"The topics of '{topic}' may be in several logs of {home}, and a subscription lies in "
            "one: make one for the topics of each log."
        )
    return logs[0]


def _folder(home: str | None, tables: str | None, log: str) -> str | None:
    """Return the folder of tables to read, of a lake that of the log; None if none was given."""
    if home is not None and tables is None and log and (lake := lake_of(home)) is not None:
        return job_home(lake.log_home(log)).tables
    return folder(home, tables) if home or tables else None


def _require_own(gateway: Gateway, where: str, log: str) -> None:
    """Check that the tables are of this gateway's log, and not of another gateway's."""
    with Client(gateway) as client:
        identity = own_log(client, log)
    spark = session(places=[where])
    require_own(spark, find_tables(spark, where).folder, identity, beside=True)


def _existing(gateway: Gateway, name: str, since: str, lake_log: str) -> BackfillRequest:
    with Client(gateway) as client:
        log = log_of(client, name, lake_log, "--lake-log")
        row = client.ask(Verb.READ, Entity.SUBSCRIPTION, name, log=log)
    return BackfillRequest(name, str(row["topic"]), since, row["selector"], rewind=True, log=log)


def _tell(parts: Iterator[Part | Refused], found: Found, *, quiet: bool) -> int | None:
    """Go through the parts with a bar; return up to which sequence the gateway has matches."""
    known: int | None = None
    with _bar(len(found.sequences), quiet=quiet) as advance:
        for part in parts:
            if isinstance(part, Refused):
                click.echo(f"The gateway looks for the rest by itself: {part}", err=True)
                break
            known = part.stop
            advance(len(part.sequences))
    return known


@contextmanager
def _bar(total: int, *, quiet: bool) -> Iterator[Any]:
    with Progress(console=Console(stderr=True), disable=quiet, transient=True) as progress:
        task = progress.add_task("telling the gateway what matches", total=total)
        yield lambda count: progress.advance(task, count)


def _report(
    request: BackfillRequest,
    found: Found | None,
    floor: int | None,
    told: int | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        said: dict[str, object] = {"subscription": request.id, "floor": floor, "hint_to": told}
        if found is not None:
            said |= {
                "matches": found.count,
                "first": found.first,
                "last": found.last,
                "gone": found.gone,
                "days": found.days,
                "log_from": found.within.log_from,
                "up_to": found.within.stop,
            }
        click.echo(json.dumps(said))
        return
    if found is not None:
        _show(found)
    if floor is not None:
        click.echo(f"{request.id} is owed what lies from sequence {floor:,} on, and what comes.")


def _show(found: Found) -> None:
    within = found.within
    table = Table(box=SIMPLE)
    table.add_column("day")
    table.add_column("matches", justify="right")
    for day, count in found.days.items():
        table.add_row(day, f"{count:,}")
    console = Console()
    if found.days:
        console.print(table)
    between = f", sequences {found.first:,} to {found.last:,}" if found.first is not None else ""
    console.print(f"{found.count:,} messages match{between}; the tables go to {within.stop:,}.")
    if found.gone:
        console.print(
            f"{found.gone:,} more match and can't come: the log begins with {within.log_from:,}. "
            "--from-what-is-there begins there."
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
