"""Random lives of subscriptions with selectors, and a plain model of what the views must say.

Every row that is written to the log is kept; the model goes over them from the start, group by
group, as slowly and plainly as it can.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from spark_log import LogWriter, Row, encoded

TOPICS = ("flights", "weather")
#: What subscriptions claim, and the topics of each.
CLAIMED = {
    "flights": ("flights",),
    "weather": ("weather",),
    "pattern://*": TOPICS,
    "pattern://flights.#": ("flights",),
}
#: Selector -> the same as Python.
SELECTORS = {
    None: lambda _n: True,
    "n > 3": lambda n: n > 3,
    "n = 1 OR n = 5": lambda n: n in (1, 5),
}
BEGINNINGS = ("created", "redefined", "rewound", "purged")
ENDED = ("expired", "dead_lettered", "dropped")
NEVER_OWED = ("local", "forbidden", "redriven")
#: What becomes of a delivery to a consumer here.
OUTCOMES = ("accepted", "rejected", "released", "modified")


@dataclass
class Claim:
    """The messages that a subscription is owed, and their failures, in the model."""

    topic: str
    selector: str | None
    owed: dict[int, datetime] = field(default_factory=dict)  #: sequence -> when published
    failures: dict[int, int] = field(default_factory=dict)


@dataclass
class Step:
    """The changes of one subscription in one group, and the messages it is owed afterwards."""

    subscription: str
    at: datetime
    came: int
    settled: int
    dropped: int
    owed: int
    oldest: datetime | None
    alive: bool  #: whether it is there after it


class Model:
    """All subscriptions as they are after some groups."""

    def __init__(self, numbers: dict[int, int]) -> None:
        self.numbers = numbers
        self.claims: dict[str, Claim] = {}
        self.published: dict[int, tuple[str, datetime]] = {}
        self.counts: dict[str, list[int]] = {}  #: came, settled, dropped in this group

    def group(self, rows: list[Row]) -> list[Step]:
        """One group: its messages, then events, then settlements."""
        self.counts = defaultdict(lambda: [0, 0, 0])
        [at] = {
            row.get("published_at") or row.get("recorded_at") or row["settled_at"] for row in rows
        }
        never = {
            (row["subscription"], one)
            for row in rows
            if row.get("outcome") in NEVER_OWED
            for one in row["sequences"]
        }
        for row in rows:
            if row["record"] == "message":
                self._publish(row, never)
        for row in rows:
            if row["record"] == "subscription":
                self._event(row)
        for row in rows:
            if row["record"] == "settlement":
                self._settle(row)
        return [
            Step(
                name, at, *counts, len(owed), min(owed.values(), default=None), name in self.claims
            )
            for name, counts in self.counts.items()
            for owed in [self.claims[name].owed if name in self.claims else {}]
        ]

    def _publish(self, row: Row, never: set[tuple[str, int]]) -> None:
        sequence = row["sequence"]
        self.published[sequence] = (row["topic"], row["published_at"])
        for name, claim in self.claims.items():
            if self._claims(claim, sequence) and (name, sequence) not in never:
                claim.owed[sequence] = row["published_at"]
                self.counts[name][0] += 1

    def _claims(self, claim: Claim, sequence: int) -> bool:
        mine = self.published[sequence][0] in CLAIMED[claim.topic]
        return mine and SELECTORS[claim.selector](self.numbers[sequence])

    def _event(self, row: Row) -> None:
        name, event = row["subscription"], row["event"]
        if event != "deleted" and event not in BEGINNINGS:
            return
        before = self.claims.pop(name, None)
        self.counts[name][2] += len(before.owed) if before else 0
        if event == "deleted":
            return
        claim = self.claims[name] = Claim(row["topic"], row["selector"])
        claim.owed = {
            one: at
            for one, (_, at) in self.published.items()
            if one >= row["floor"] and self._claims(claim, one)
        }
        self.counts[name][0] += len(claim.owed)

    def _settle(self, row: Row) -> None:
        claim = self.claims[row["subscription"]]
        self.counts[row["subscription"]]
        for one in row["sequences"]:
            if row["final"] and claim.owed.pop(one, None):
                self.counts[row["subscription"]][1] += 1
            elif not row["final"]:
                count = row["delivery_count"] + (row["outcome"] == "modified")
                claim.failures[one] = max(claim.failures.get(one, 0), count)

    @property
    def owed(self) -> set[tuple[str, int]]:
        """All messages that a subscription is owed, with its name."""
        return {(name, one) for name, claim in self.claims.items() for one in claim.owed}


class Life:
    """A random life; `live` for some groups, commits come in between."""

    def __init__(self, log: LogWriter, seed: int) -> None:
        self.log, self.random = log, random.Random(seed)
        self.model = Model({})
        self.steps: list[Step] = []  #: all that happened to subscriptions

    def live(self, groups: int) -> None:
        for _ in range(groups):
            self.log.next_group()
            before = len(self.log.known)
            chosen = self.random.choices([self._publish, self._settle, self._define], [4, 4, 1])
            chosen[0]()
            if len(self.log.known) > before:
                self.steps += self.model.group(self.log.known[before:])
            if self.log.rows and self.random.random() < 0.2:
                self.log.commit()
        if self.log.rows:
            self.log.commit()

    def _publish(self) -> None:
        """Some of it isn't owed to one subscription."""
        topic = self.random.choice(TOPICS)
        numbers = [self.random.randrange(8) for _ in range(self.random.randint(1, 6))]
        added = self.log.publish(topic, *(encoded(properties={"n": n}) for n in numbers))
        self.model.numbers.update(zip(added, numbers, strict=True))
        claims = self.model.claims
        known = [name for name, claim in claims.items() if topic in CLAIMED[claim.topic]]
        if known and self.random.random() < 0.3:
            name = self.random.choice(sorted(known))
            never = [("local", "container"), ("forbidden", ""), ("redriven", "")]
            outcome, who = self.random.choice(never)
            claimed = claims[name].topic
            self._settled(name, claimed, [added[0]], outcome, final=True, consumer=who)

    def _define(self) -> None:
        name = f"global/s{self.random.randrange(5)}"
        claim = self.model.claims.get(name)
        if claim is None or self.random.random() < 0.3:
            event = "created" if claim is None else "redefined"
            topic, selector = self.random.choice([*CLAIMED]), self.random.choice([*SELECTORS])
            self.log.subscribe(name, topic, event=event, selector=selector)
            return
        event = self.random.choice(["rewound", "rewound", "purged", "deleted", "paused"])
        floor = self.random.randint(0, self.log.sequence) if event == "rewound" else None
        self.log.subscribe(name, claim.topic, event=event, floor=floor, selector=claim.selector)

    def _settle(self) -> None:
        for name, claim in self.model.claims.items():
            some = [one for one in sorted(claim.owed) if self.random.random() < 0.4]
            if not some:
                continue
            outcome = self.random.choice(
                ["accepted", "accepted", "rejected", "released", "modified", *ENDED]
            )
            final = outcome not in ("released", "modified")
            who = "" if outcome in ENDED else f"worker-{self.random.randrange(3)}/{name}"
            for count, same in self._by_failures(claim, some):
                self._settled(
                    name, claim.topic, same, outcome, final=final, consumer=who, count=count
                )

    def _by_failures(self, claim: Claim, some: list[int]) -> Iterator[tuple[int, list[int]]]:
        for count in sorted({claim.failures.get(one, 0) for one in some}):
            yield count, [one for one in some if claim.failures.get(one, 0) == count]

    def _settled(
        self,
        name: str,
        topic: str,
        some: list[int],
        outcome: str,
        *,
        final: bool,
        consumer: str,
        count: int = 0,
    ) -> None:
        """The floor is the lowest that is owed after it, or was published with it; each lot was
        held for another time."""
        left = set(self.model.claims[name].owed) - set(some if final else [])
        if outcome in NEVER_OWED:
            left.update(range(some[0], self.log.sequence))
        self.log.settle(
            name,
            topic,
            some,
            min(left, default=self.log.sequence),
            outcome=outcome,
            final=final,
            consumer=consumer,
            delivery_count=count,
        )
        held = timedelta(milliseconds=self.random.randrange(5_000))
        self.log.known[-1]["delivered_at"] = self.log.now - held
