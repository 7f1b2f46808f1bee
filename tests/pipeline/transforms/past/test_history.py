"""Random histories of many subscriptions, folded by Spark and by a dumb model."""

import random
from dataclasses import dataclass, field

import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession
from spark_log import encoded
from spark_place import Place, assert_rows

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.views.pending import pending

TOPICS = ("flights", "weather")
COUNTED = ("accepted", "rejected", "released", "modified")
#: What ends a message without a consumer.
ENDED = ("expired", "dead_lettered", "dropped")
NEVER_OWED = ("local", "redriven")


@dataclass
class Model:
    """A subscription as sets: what it is owed is what was published and isn't settled."""

    topic: str
    owed: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    failures: dict[int, int] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def floor(self, head: int) -> int:
        return min(self.owed, default=head)


class History:
    """One random life of a log; groups are short, commits and runs of the job come in between."""

    def __init__(self, place: Place, seed: int) -> None:
        self.place, self.log = place, place.log
        self.random = random.Random(seed)
        self.living: dict[str, Model] = {}
        self.published: dict[str, list[int]] = {topic: [] for topic in TOPICS}
        self.acks = 0

    def live(self, groups: int) -> None:
        for _ in range(groups):
            self.log.next_group()
            # A subscription's events are never in one group with its settlements.
            life = (self._publish, self._publish, self._settle, self._subscribe, self._operate)
            self.random.choice(life)()
            if self.random.random() < 0.2:
                self.log.commit()
        if self.log.rows:
            self.log.commit()

    def _publish(self) -> None:
        topic = self.random.choice(TOPICS)
        bodies = [encoded() for _ in range(self.random.randint(1, 9))]
        added = self.log.publish(topic, *bodies, expires_at=self.log.now)
        self.published[topic] += added
        for model in self.living.values():
            if model.topic == topic:
                model.owed.update(added)

    def _subscribe(self) -> None:
        name = f"global/s{self.random.randrange(6)}"
        if name in self.living and self.random.random() < 0.5:
            del self.living[name]
            self.log.subscribe(name, "flights", event="deleted")
            return
        event = "redefined" if name in self.living else "created"
        self.living[name] = Model(self.random.choice(TOPICS))
        self.log.subscribe(name, self.living[name].topic, event=event)

    def _operate(self) -> None:
        """A rewind to anywhere, a purge, or what changes nothing of what is owed."""
        if not self.living:
            return
        name = self.random.choice(sorted(self.living))
        topic = self.living[name].topic
        event = self.random.choice(["rewound", "purged", "paused", "resumed", "configured"])
        floor = self.random.randint(0, self.log.sequence) if event == "rewound" else None
        self.log.subscribe(name, topic, event=event, floor=floor)
        if event in ("rewound", "purged"):
            since = self.log.sequence if floor is None else floor
            owed = {s for s in self.published[topic] if s >= since}
            self.living[name] = Model(topic, owed=owed)

    def _settle(self) -> None:
        for name, model in self.living.items():
            some = [s for s in sorted(model.owed) if self.random.random() < 0.4]
            if not some:
                continue
            self._settle_some(name, model, some)

    def _settle_some(self, name: str, model: Model, some: list[int]) -> None:
        """With one outcome; a row for each number of failed attempts behind them."""
        outcome = self.random.choice((*COUNTED, "lost", *ENDED, *NEVER_OWED))
        final = outcome not in ("released", "modified", "lost")
        if final:
            model.owed.difference_update(some)
            model.settled.update(some)
        if outcome == "lost":
            model.lost.update(some)
        if outcome in COUNTED:
            model.counts[outcome] += len(some)
        floor = model.floor(self.log.sequence)
        for count in {model.failures.get(one, 0) for one in some}:
            same = [one for one in some if model.failures.get(one, 0) == count]
            self.log.settle(
                name,
                model.topic,
                same,
                floor,
                outcome=outcome,
                final=final,
                delivery_count=count,
                consumer="worker-1/dispatchers" if outcome in (*COUNTED, "lost") else "",
            )
        for one in some:
            model.failures[one] = model.failures.get(one, 0) + (outcome == "modified")
        self.acks += len(some)


@pytest.mark.parametrize("seed", range(2))
def test_cursors_and_pending_equal_the_model(place: Place, seed: int) -> None:
    """After each run of the job every subscription stands where the model says, and is owed
    exactly what the model says; deleted ones are gone."""
    history = History(place, seed)
    for _ in range(2):
        history.live(groups=40)
        place.materialize()
        rows = {row["subscription"]: row for row in place.rows("cursors")}
        assert set(rows) == set(history.living)
        for name, model in history.living.items():
            row = rows[name]
            assert {outcome: row[outcome] for outcome in COUNTED} == model.counts
            settled = set(BitMap64.deserialize(row["settled"]))
            assert settled == {s for s in model.settled if s >= row["floor"]}
            assert row["settled_count"] == len(settled)
            failures = {one["sequence"]: one["failures"] for one in row["failures"]}
            assert failures == {s: n for s, n in model.failures.items() if n and s in model.owed}
            assert set(BitMap64.deserialize(row["lost"])) == model.lost & set(model.owed)
            found = pending(place.spark, str(place.home.root), name).select("sequence")
            assert_rows(found, [(one,) for one in model.owed])
    acks = place.rows("acks")
    assert len(acks) == history.acks
    nobody = [row for row in acks if row["consumer"] is None]
    assert len(nobody) == sum(row["outcome"] in (*ENDED, *NEVER_OWED) for row in acks) > 0
    assert all(row["delivered_at"] is None and row["settled_at"] for row in nobody)
    assert all(row["delivered_at"] for row in acks if row["consumer"] is not None)
    assert len(place.rows("messages")) == place.log.sequence


def test_names_of_subscriptions(place: Place) -> None:
    """An id always works, a bare name if it is the only one; else the error lists what there is."""
    log = place.log
    log.next_group()
    log.subscribe("global/orders", "flights")
    log.subscribe("container/c1/orders", "flights")
    log.subscribe("container/c1/my%20own", "flights")
    log.next_group()
    log.publish("flights", encoded("x"))
    log.commit()
    place.materialize()
    tables = place.places.tables
    assert pending(place.spark, tables, "global/orders").count() == 1
    assert pending(place.spark, tables, "my own").count() == 1
    with pytest.raises(InvalidRequest, match="several subscriptions, give an id: container/c1/ord"):
        pending(place.spark, tables, "orders")
    with pytest.raises(InvalidRequest, match="no durable subscription 'x'; there are: container"):
        pending(place.spark, tables, "x")


def test_no_tables_is_one_sentence(spark: SparkSession, tmp_path: object) -> None:
    """It says what to run."""
    with pytest.raises(InvalidRequest, match="run `distributary jobs materialize` first"):
        pending(spark, str(tmp_path), "x")
