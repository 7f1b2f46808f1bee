"""The views say of random lives what a plain model says."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import ceil

import pytest
from pyspark.sql import Row
from random_life import NEVER_OWED, OUTCOMES, Life, Step
from spark_log import BEGIN
from spark_place import Place, assert_rows, first_part

from distributary.pipeline.transforms.schema.home_tables import find_tables
from distributary.pipeline.transforms.views.backlog import backlog
from distributary.pipeline.transforms.views.consumers import consumers
from distributary.pipeline.transforms.views.file_sums import within_reach
from distributary.pipeline.transforms.views.happenings import events
from distributary.pipeline.transforms.views.pending import pending, pending_of_all
from distributary.pipeline.transforms.views.view_registry import register

WIDTH, BACK = timedelta(seconds=20), timedelta(seconds=130)


def buckets(steps: list[Step], end: datetime) -> Iterator[tuple[object, ...]]:
    """The expected rows of `backlog`: every bucket in which a subscription lived, by a walk over
    all steps for each of them."""
    first = min(step.at for step in steps)
    for name in {step.subscription for step in steps}:
        mine = [step for step in steps if step.subscription == name]
        at = datetime.fromtimestamp(first.timestamp() // 20 * 20, UTC)
        while at <= end:
            before = [step for step in mine if step.at < at + WIDTH]
            here = [step for step in before if step.at >= at]
            if before and (before[-1].alive or here):
                yield (
                    name,
                    at,
                    before[-1].owed,
                    *(sum(getattr(step, what) for step in here) for what in COUNTS),
                    before[-1].oldest,
                )
            at += WIDTH


COUNTS = ("came", "settled", "dropped")
#: Of one home on a disk without patterns, about; two are Delta's, which looks for files.
JOBS = {"pending": 7, "stuck": 10, "stuck_summary": 10, "backlog": 7, "backlog_minutes": 7}


def aware(at: datetime | None) -> datetime | None:
    """Spark's times come in the zone of the machine."""
    return None if at is None else at.astimezone(UTC)


def test_the_views_equal_the_model(place: Place) -> None:
    """After any claims, settlements, rewinds, purges and deletions the views have the model's owed
    messages, also of all subscriptions at once, its backlog over time, and its deliveries."""
    life = Life(place.log, seed=3)
    life.live(groups=150)
    place.materialize()
    tables = find_tables(place.spark, str(place.home.root))

    found = pending_of_all(tables).select("subscription", "sequence")
    assert_rows(found, life.model.owed)
    assert len({name for name, _ in life.model.owed}) > 2
    name = min(life.model.claims)
    alone = pending(place.spark, str(place.home.root), name).select("sequence")
    owed = [(sequence,) for one, sequence in life.model.owed if one == name]
    assert_rows(alone, owed)

    end = place.log.now
    said = backlog(tables, width=WIDTH, until=end).collect()
    rows = {
        (row.subscription, aware(row.begins_at)): (
            row.owed,
            *(row[what] for what in COUNTS),
            aware(row.oldest_at),
        )
        for row in said
    }
    wanted = {(name, at): tuple(rest) for name, at, *rest in buckets(life.steps, end)}
    assert {key: rows.get(key) for key in wanted} == wanted
    assert set(rows) == set(wanted)
    owed = Counter(name for name, _ in life.model.owed)
    for name in life.model.claims:
        last = max((row for row in said if row.subscription == name), key=lambda row: row.begins_at)
        assert last.owed == owed[name]
        if last.owed:
            oldest = life.model.claims[name].owed[min(life.model.claims[name].owed)]
            assert last.oldest_seconds == (end - oldest).total_seconds()

    back = backlog(tables, width=WIDTH, until=end, back=BACK).collect()
    late = {key: row for key, row in wanted.items() if key[1] > end - timedelta(seconds=150)}
    assert {(row.subscription, aware(row.begins_at)) for row in back} == set(late)
    for row in back:
        counted = (row.owed, *(row[what] for what in COUNTS), aware(row.oldest_at))
        assert counted == late[row.subscription, aware(row.begins_at)]

    check_consumers(place, life)
    check_events(place)
    check_by_spark(place, back, end)


def test_what_is_small_is_asked_once(place: Place) -> None:
    """However often a view needs the cursors it reads them once, so of one version, and it costs
    no more jobs than its parts. To make the views costs none that is waited for."""
    first_part(place)
    place.materialize()
    running = place.spark.sparkContext._jsc.sc()

    def jobs(asked: Callable[[], object]) -> int:
        tag = str(uuid.uuid4())  # other sessions have jobs meanwhile
        running.addJobTag(tag)
        asked()
        running.removeJobTag(tag)
        running.listenerBus().waitUntilEmpty()
        return len(running.statusTracker().getJobIdsForTag(tag))

    assert not jobs(lambda: register(place.spark, str(place.home.root)))
    for name, most in JOBS.items():
        place.spark.table(name).collect()  # Delta looks at new tables once
        assert 0 < jobs(place.spark.table(name).collect) <= most, name


def check_by_spark(place: Place, said: list[Row], end: datetime) -> None:
    """If tasks can't reach the files Spark reads them, with equal results; `said` are the rows of
    `backlog`."""
    near = find_tables(place.spark, str(place.home.root))
    far = replace(near, folder=f"file://{near.folder}")
    assert within_reach(near)
    assert not within_reach(far)
    assert_rows(backlog(far, width=WIDTH, until=end, back=BACK), said)
    assert_rows(consumers(far), consumers(near).collect())


def check_events(place: Place) -> None:
    """Each row of the log, for each message that it is about, and the deliveries of settlements."""
    tables = find_tables(place.spark, str(place.home.root))
    wanted: Counter[tuple[object, ...]] = Counter()
    for row in place.log.known:
        match row["record"]:
            case "message":
                wanted["published", None, row["sequence"], row["published_at"]] += 1
            case "subscription":
                wanted[row["event"], row["subscription"], None, row["recorded_at"]] += 1
            case "settlement":
                handed_over = row["consumer"] and row["outcome"] not in NEVER_OWED
                for one in row["sequences"]:
                    wanted[row["outcome"], row["subscription"], one, row["settled_at"]] += 1
                    if handed_over:
                        handed = ("delivered", row["subscription"], one, row["delivered_at"])
                        wanted[handed] += 1
    said = Counter(
        (row.event, row.subscription, row.sequence, aware(row.at))
        for row in events(tables).collect()
    )
    assert said == wanted


def check_consumers(place: Place, life: Life) -> None:
    """In a window that cuts the life, against a walk over the settlements."""
    since, until = BEGIN + timedelta(seconds=200), BEGIN + timedelta(seconds=700)
    seen: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for row in place.log.known:
        if row["record"] != "settlement" or not row["consumer"]:
            continue
        if row["outcome"] in NEVER_OWED or not since <= row["settled_at"] < until:
            continue
        took = (row["settled_at"] - row["delivered_at"]).total_seconds()
        for _ in row["sequences"]:
            seen[row["subscription"], row["consumer"]].append((row["outcome"], took))
    tables = find_tables(place.spark, str(place.home.root))
    rows = consumers(tables, since=since, until=until).collect()
    assert {(row.subscription, row.consumer) for row in rows} == set(seen)
    everything = Counter({key: len(had) for key, had in seen.items()})
    for row in rows:
        had = seen[row.subscription, row.consumer]
        of_all = sum(n for (name, _), n in everything.items() if name == row.subscription)
        assert row.deliveries == len(had) == sum(row[one] for one in OUTCOMES)
        assert {one: row[one] for one in OUTCOMES if row[one]} == Counter(one for one, _ in had)
        assert row.share == pytest.approx(len(had) / of_all)
        assert row.per_second == pytest.approx(len(had) / 500)
        times = sorted(took for outcome, took in had if outcome not in ("released", "lost"))
        for share, column in ((0.5, "p50"), (0.9, "p90"), (0.99, "p99")):
            expected = times[ceil(share * len(times)) - 1] if times else None
            assert row[f"settle_seconds_{column}"] == pytest.approx(expected, rel=0.0035)
        assert since <= aware(row.last_seen) < until
