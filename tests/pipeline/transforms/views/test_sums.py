"""Sums in Arrow say what a walk over the rows says, however the rows are divided."""

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from distributary.pipeline.transforms.views.consumer_sums import (
    PERCENTILES,
    READ,
    DeliverySums,
    merged,
)
from distributary.pipeline.transforms.views.file_sums import Reading, all_rows, dealt, sums_of
from distributary.pipeline.transforms.views.settled_sums import Clip, Lives, SettledSums

BEGIN = datetime(2026, 11, 25, tzinfo=UTC)
STEP = 2 ** (1 / 64)


def test_a_settlement_is_of_the_incarnation_that_began_before_it() -> None:
    """The event that ends an incarnation ends it with its group; settlements between two belong to
    none."""
    said = [("a", 1, 5), ("b", 3, None), ("a", 5, 9), ("a", 12, None)]
    rows = [
        {"subscription": name, "floor": 0, "began": began, "ended": ended}
        for name, began, ended in said
    ]
    lives = Lives.of([{**row, "began_us": 7, "ended_us": None} for row in rows])
    assert lives.subscription == ["a", "a", "a", "b"]
    groups = np.arange(1, 15)
    for code, name in enumerate(("b", "a", "c")):
        found = lives.at(np.full(len(groups), code), ["b", "a", "c"], groups)
        for group, at in zip(groups.tolist(), found.tolist(), strict=True):
            wanted = [
                nth
                for nth, one in enumerate(lives.subscription)
                if one == name and lives.began[nth] < group <= lives.ended[nth]
            ]
            assert [at] == (wanted or [-1])
    assert Lives.of([]).at(np.zeros(1, np.int64), ["a"], groups[:1]) == -1


def test_consumers_of_files_of_many_forms(tmp_path: Path) -> None:
    """Files in two days, row groups that know different names, rows without a consumer."""
    chance, rows = random.Random(5), list[dict[str, object]]()
    plain: defaultdict[tuple[object, object], list[tuple[object, int]]] = defaultdict(list)
    for nth in range(3_000):
        at = BEGIN + timedelta(minutes=nth)
        took = chance.choice((0, 1, chance.randrange(2_000), chance.randrange(2_000_000)))
        row = {
            "subscription": f"s{nth // 700}",
            "consumer": f"c{chance.randrange(3)}",
            "outcome": chance.choice(("accepted", "accepted", "released", "rejected", "modified")),
            "delivered_at": at,
            "settled_at": at + timedelta(microseconds=took),
            "day": at.date(),
        }
        if nth % 50 == 0:
            row |= {"consumer": None, "delivered_at": None}
        elif row["outcome"] != "modified":
            plain[row["subscription"], row["consumer"]].append((row["outcome"], took))
        rows.append(row)
    kind = pa.schema(
        [
            *((name, pa.string()) for name in READ[:3]),
            *((name, pa.timestamp("us", "UTC")) for name in READ[3:]),
            ("day", pa.date32()),
        ]
    )
    for begin in (0, 1_100):
        some = pa.Table.from_pylist(rows[begin : begin + (1_100 if not begin else 2_000)], kind)
        write_deltalake(tmp_path / "acks", some, partition_by=["day"], mode="append")
    reading = Reading(str(tmp_path / "acks"), READ)
    tasks = list(dealt(iter([pa.record_batch({"one": [1]})]), reading, 3))
    assert tasks[0].num_rows > 1
    sums = DeliverySums(None, None, ("modified",))
    parts = [
        one
        for task in range(tasks[0].num_rows)
        for one in sums_of(iter([tasks[0].slice(task, 1)]), reading, sums)
    ]
    (found,) = merged(iter(parts))
    said = {(row["subscription"], row["consumer"]): row for row in found.to_pylist()}
    assert set(said) == set(plain)
    handed_over = [row for row in rows if row["consumer"] and row["outcome"] != "modified"]
    first = min(row["delivered_at"] for row in handed_over)
    assert min(row["first_seen"] for row in said.values()) == first
    for key, had in plain.items():
        row, times = (
            said[key],
            sorted(took for outcome, took in had if outcome not in ("released", "lost")),
        )
        assert row["deliveries"] == len(had)
        assert row["released"] == sum(outcome == "released" for outcome, _ in had)
        for share, name in PERCENTILES.items():
            wanted = times[ceil(share * len(times)) - 1]
            assert wanted / 1e6 <= row[name] <= max(wanted * STEP, wanted + 1) / 1e6
    days = Reading(str(tmp_path / "acks"), READ, since=BEGIN.date() + timedelta(days=2))
    (later,) = dealt(iter([pa.record_batch({"one": [1]})]), days, 1)
    units = later.column("parts").to_pylist()[0]
    assert sum(pq.read_metadata(one["path"]).num_rows for one in units) == 3_000 - 2 * 1_440


def test_a_table_without_rows_is_no_task(tmp_path: Path) -> None:
    """This holds for any known values, also for a list of structs, which Arrow takes by numbers
    alone."""
    kind = pa.schema([(name, pa.string()) for name in READ])
    write_deltalake(tmp_path / "acks", kind.empty_table())
    known = pa.record_batch({"lives": [[{"began": 1}]]})
    (none,) = dealt(iter([known]), Reading(str(tmp_path / "acks"), READ), 3)
    assert (none.num_rows, none.schema.names) == (0, ["lives", "parts"])


def test_parts_of_files_that_say_that_all_is_less_are_left_out(tmp_path: Path) -> None:
    """Each row group is whole or left out; one that says nothing is there."""
    for name, statistics in (("said", True), ("unsaid", ["topic"])):
        rows = pa.table({"topic": ["t"] * 30, "sequence": range(30)})
        write_deltalake(tmp_path / name, rows)
        (file,) = (tmp_path / name).glob("*.parquet")
        pq.write_table(rows, file, row_group_size=10, write_statistics=statistics)
    for name, least, wanted in (
        ("said", None, 0),
        ("said", 9, 0),
        ("said", 10, 10),
        ("said", 25, 20),
        ("unsaid", 25, 0),
    ):
        reading = Reading(str(tmp_path / name), ("sequence", "topic"), least=least)
        found = [one for rows in all_rows(reading) for one in rows["sequence"].to_pylist()]
        assert found == list(range(wanted, 30)), (name, least)


def test_settlements_of_nobody_are_not_read(tmp_path: Path) -> None:
    """A subscription without a recorded event has no incarnation."""
    kind = pa.schema([("sequence", pa.int64()), ("group", pa.int64())])
    times = kind.append(pa.field("published_at", pa.timestamp("us", "UTC")))
    write_deltalake(tmp_path / "messages", times.empty_table())
    acks = pa.table(
        {
            "subscription": ["global/nobody"],
            "sequence": [0],
            "outcome": ["accepted"],
            "final": [True],
            "settled_at": [BEGIN],
            "group": [1],
        }
    )
    sums = SettledSums(str(tmp_path / "messages"), Clip(1_000_000, None, clipped=False))
    known = pa.record_batch({"lives": [[]], "upto": [9], "first": [0]})
    assert list(sums(known, iter([acks]))) == []
