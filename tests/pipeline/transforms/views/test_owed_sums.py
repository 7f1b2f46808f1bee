"""Owed messages, summed up in Arrow, are those of a walk over all pairs of messages and
incarnations."""

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyroaring import BitMap64
from traced_memory import traced

from distributary.pipeline.model.topic_pattern import matches
from distributary.pipeline.transforms.schema.spark_schema import arrow_schema
from distributary.pipeline.transforms.views import owed_sums
from distributary.pipeline.transforms.views.owed_sums import OwedSums
from distributary.pipeline.transforms.views.settled_sums import FACTS, Clip

BEGIN = datetime(2026, 11, 25, tzinfo=UTC)
BEGIN_US = int(BEGIN.timestamp()) * 1_000_000
WIDTH = 1_000_000
TOPICS = ("a.x", "a.y", "b", "queue://q")
ASKED = ("a.x", "b", "queue://q", "pattern://a.*", "pattern://#", "gone")
SELECTORS = {None: 1, "n = 2": 2, "n = 3": 3, "n = 0": 0}
NEVER = 2**63 - 1


class Home:
    """Random messages, incarnations and acks: some subscriptions several times, some lives over."""

    def __init__(self, folder: Path, seed: int) -> None:
        chance = self.chance = random.Random(seed)
        self.folder = folder
        self.messages = [
            {
                "sequence": nth + nth // 50 * 7,  # some are missing
                "topic": chance.choice(TOPICS[: 2 + nth // 100]),
                "published_at": BEGIN + timedelta(milliseconds=nth * 40 + chance.randrange(500)),
                "group": 1 + nth // 9,
            }
            for nth in range(400)
        ]
        self.acks: list[dict[str, object]] = []
        self.lives = [life for nth in range(40) for life in self._of(f"s{nth}")]
        chance.shuffle(self.lives)

    def _of(self, name: str) -> Iterator[dict[str, object]]:
        began, chance = self.chance.randrange(1, 12), self.chance
        while True:
            ended = chance.choice((None, began + chance.randrange(1, 30)))
            floor = chance.randrange(300)
            life = dict.fromkeys(FACTS["lives"].dataType.elementType.names)
            life |= {"subscription": name, "floor": floor}
            life |= {"topic": chance.choice(ASKED), "selector": chance.choice([*SELECTORS])}
            life |= {"began": began, "ended": ended, "owed_from": floor}
            life["began_us"] = BEGIN_US + began * 300_000
            settled = chance.sample(range(450), chance.randrange(300))
            if ended is not None:
                life |= {"ended_us": BEGIN_US + ended * 300_000, "owed_to": ended - 1}
                for one in settled:
                    group = chance.randrange(began, ended + 2)
                    final = chance.random() < 0.8
                    self._ack(name, one, group, final=final)
                    if not (final and began < group <= ended):
                        settled = [other for other in settled if other != one]
            elif chance.random() < 0.9:  # else it has no cursor yet
                life |= {"owed_to": chance.randrange(20, 60)}
                life["settled"] = BitMap64(settled).serialize()
            life["_settled"] = set(settled)
            yield life
            if ended is None or chance.random() < 0.3:
                return
            began = ended + chance.randrange(2, 5)

    def _ack(self, name: str, sequence: int, group: int, *, final: bool) -> None:
        ack = {"subscription": name, "sequence": sequence, "group": group, "final": final}
        self.acks.append(ack)

    def write(self) -> None:
        """In several files, and not in the order of sequences."""
        some = list(self.messages)
        self.chance.shuffle(some)
        kinds = {"sequence": pa.int64(), "topic": pa.string(), "group": pa.int64()}
        kinds["published_at"] = pa.timestamp("us", "UTC")
        for part in (some[:90], some[90:300], some[300:]):
            rows = pa.Table.from_pylist(part, pa.schema(kinds))
            write_deltalake(self.folder / "messages", rows, mode="append")
        kinds = {name: pa.int64() for name in ("sequence", "group")}
        kinds |= {"subscription": pa.string(), "final": pa.bool_()}
        for part in (self.acks[::2], self.acks[1::2]):
            rows = pa.Table.from_pylist(part, pa.schema(kinds))
            write_deltalake(self.folder / "acks", rows, mode="append")

    def known(self, first: int) -> pa.RecordBatch:
        """Selected sequences come in several parts; one selector selects nothing."""
        selected = [
            {"selector": text, "sequences": BitMap64(some).serialize()}
            for text, of in SELECTORS.items()
            if text is not None and of
            for some in (range(of, 250, of * 2), range(250, 600, of))
        ]
        kind = arrow_schema(FACTS).field("lives").type
        lives = [{name: one[name] for name in kind.value_type.names} for one in self.lives]
        return pa.record_batch(
            {
                "selected": pa.array([selected]),
                "lives": pa.array([lives], kind),
                "first": pa.array([first]),
            }
        )

    def owed(self, life: dict[str, object]) -> Iterator[int]:
        """When each message was published that this one is owed."""
        of = SELECTORS[life["selector"]]
        for one in self.messages:
            sequence = one["sequence"]
            chosen = of == 1 or (of and sequence in (*range(of, 250, of * 2), *range(250, 600, of)))
            if (
                life["owed_to"] is not None
                and matches(life["topic"], one["topic"])
                and sequence >= life["owed_from"]
                and one["group"] <= life["owed_to"]
                and chosen
                and sequence not in life["_settled"]
            ):
                yield (one["published_at"] - BEGIN) // timedelta(microseconds=1) + BEGIN_US


@pytest.mark.parametrize("together", [7, 500_000])
@pytest.mark.parametrize("clip", ["whole", "until", "back"])
@pytest.mark.parametrize("seed", range(3))
def test_sums_equal_a_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, clip: str, together: int
) -> None:
    """Sums are equal for settled and expired messages, patterns and selectors, and any number of
    pairs summed at once."""
    monkeypatch.setattr(owed_sums, "TOGETHER", together)
    home = Home(tmp_path, seed)
    home.write()
    until = None if clip == "whole" else BEGIN + timedelta(seconds=11)
    first = BEGIN_US // WIDTH + (4 if clip == "back" else 0)
    wanted: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for life in home.lives:
        for at in home.owed(life):
            came = max(at, life["began_us"])
            went = None if life["ended_us"] is None else max(came, life["ended_us"])
            if until is not None:
                end = (until - BEGIN) // timedelta(microseconds=1) + BEGIN_US
                if came > end:
                    continue
                went = went if went is not None and went <= end else None
            came_in, went_in = came // WIDTH, went and went // WIDTH
            if clip == "back":
                if went_in is not None and went_in < first:
                    continue
                came_in = max(came_in, first - 1)
            wanted[life["subscription"], life["began"], came_in, went_in].append(at)
    assert len(wanted) > 50

    found: defaultdict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
    sums = OwedSums(str(tmp_path), Clip(WIDTH, until, clipped=clip == "back"))
    for batch in sums(iter([home.known(first)])):
        assert sum(batch.column("n").to_pylist()) < 2 * together
        for row in batch.to_pylist():
            key = tuple(row[name] for name in ("subscription", "began", "came_in", "went_in"))
            oldest = (row["oldest_at"] - BEGIN) // timedelta(microseconds=1) + BEGIN_US
            found[key].append((row["n"], oldest))
            assert not row["was_settled"]
    assert {key: sum(n for n, _ in some) for key, some in found.items()} == {
        key: len(some) for key, some in wanted.items()
    }
    assert {key: min(at for _, at in some) for key, some in found.items()} == {
        key: min(some) for key, some in wanted.items()
    }


def test_nothing_is_owed_where_there_is_nobody_or_no_message(tmp_path: Path) -> None:
    """Without subscriptions no table is read; a table without rows is one without messages."""
    home = Home(tmp_path, 5)
    home.messages, home.acks = [], []
    sums = OwedSums(str(tmp_path), Clip(WIDTH, None, clipped=False))
    lives, home.lives = home.lives, []
    assert list(sums(iter([home.known(0)]))) == []
    home.lives = lives
    home.write()
    assert list(sums(iter([home.known(0)]))) == []


def test_bitmaps_of_selectors_hold_what_batches_hold() -> None:
    """One for each selector, whatever batch it was in."""
    batches = [
        pa.record_batch({"_selector": ["a", "b", "a"], "sequence": [3, 3, 2**40]}),
        pa.record_batch({"_selector": ["b"], "sequence": [9]}),
    ]
    rows = [row for one in owed_sums.bitmaps_by_selector(iter(batches)) for row in one.to_pylist()]
    said = {row["selector"]: set(BitMap64.deserialize(row["sequences"])) for row in rows}
    assert said == {"a": {3, 2**40}, "b": {3, 9}}
    assert sum(one.num_rows for one in owed_sums.bitmaps_by_selector(iter([]))) == 0


MANY = 20_000


def peak_of_summing(folder: Path, subscriptions: int) -> int:
    """Bytes of numbers and objects at most, where so many subscriptions with a selector each, which
    selects all, have settled all messages."""
    home, sequences = Home(folder, 7), range(MANY)
    home.messages = [
        {"sequence": nth, "topic": "b", "published_at": BEGIN, "group": 3} for nth in sequences
    ]
    home.acks, home.lives = [], []
    bits = BitMap64(sequences).serialize()
    for name in (f"s{nth}" for nth in range(subscriptions)):
        life = dict.fromkeys(FACTS["lives"].dataType.elementType.names)
        life |= {"subscription": name, "topic": "b", "selector": name, "floor": 0, "began": 2}
        life |= {"began_us": BEGIN_US, "owed_from": 0, "owed_to": 8, "settled": bits}
        home.lives.append(life)
    home.write()
    kind = arrow_schema(FACTS).field("lives").type
    selected = [{"selector": one["selector"], "sequences": bits} for one in home.lives]
    known = {"lives": pa.array([home.lives], kind), "selected": pa.array([selected])}
    batch = pa.record_batch(known | {"first": pa.array([0])})
    with traced() as memory:
        sums = OwedSums(str(folder), Clip(WIDTH, None, clipped=False))
        assert sum(rows.num_rows for rows in sums(iter([batch]))) == 0
    return memory.peak


def test_bitmaps_become_numbers_one_after_the_other(tmp_path: Path) -> None:
    """A bitmap is a bit for each message at most, as numbers 64."""
    few, many = (peak_of_summing(tmp_path / str(count), count) for count in (1, 21))
    assert many < few + 20 * MANY * 2
