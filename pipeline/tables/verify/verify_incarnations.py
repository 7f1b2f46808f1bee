"""The incarnations of durable subscriptions, read from their events in the log.

An event of BEGINNINGS in group G begins an incarnation, the next one or `deleted` ends it; within
one group a beginning wins. All other events don't change what is owed. A settlement belongs to the
incarnation that began in a group before its own and ended in its own group or later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.policy import DEFAULT
from distributary.pipeline.model.subscription import (
    BEGINNINGS,
    NOT_OF_SUBSCRIPTIONS,
    OPEN_TRANSACTIONS,
    SubscriptionEvent,
)
from distributary.pipeline.subscriptions import policy_table
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Chunked, Int64s
from distributary.pipeline.tables.topic_log.table_view import TableView
from distributary.pipeline.tables.verify.check import Findings
from distributary.pipeline.tables.verify.verify_files import FileReader

#: More groups than any log has: a subscription's range in a combined key.
_GROUPS_MAX = 1 << 40


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One incarnation of a subscription with its definition; `ended` is None while it lasts."""

    subscription: str
    topic: str
    owes_all: bool  #: no selector and no no-local: every message of the topic is owed
    floor: int
    began: int
    ended: int | None

    def covers(self, group: int) -> bool:
        return self.began <= group and (self.ended is None or self.ended > group)


@dataclass(frozen=True, slots=True)
class Said:
    """Other attributes in the last event of a subscription."""

    group: int
    paused: bool
    policy: str


@dataclass(frozen=True, slots=True)
class _Event:
    group: int
    begins: bool
    subscription: str
    topic: str
    owes_all: bool
    floor: int


#: The attributes of a subscription before its first event.
_NOTHING = Said(-1, paused=False, policy="")


class Incarnations:
    """All incarnations, found by subscription and group in bulk. `said` are the attributes in the
    last event of each subscription."""

    def __init__(
        self,
        incarnations: list[Incarnation],
        said: dict[str, Said],
        prepared: tuple[str, ...] = (),
    ) -> None:
        """`prepared` are the global ids of transactions, prepared or decided, that have no end."""
        self.said, self.prepared = said, prepared
        self.all = sorted(incarnations, key=lambda one: (one.subscription, one.began))
        self._names = sorted({one.subscription for one in incarnations})
        index = {name: nth for nth, name in enumerate(self._names)}
        of = np.array([index[one.subscription] for one in self.all], np.int64)
        began = np.array([one.began for one in self.all], np.int64)
        self._keys = of * _GROUPS_MAX + began
        self._of = of
        self._ended = np.array(
            [_GROUPS_MAX if one.ended is None else one.ended for one in self.all], np.int64
        )

    def find(self, subscriptions: Chunked, groups: Int64s) -> Int64s:
        """Return the index of each settlement's incarnation, -1 if it belongs to none."""
        if not self.all:
            return np.full(len(groups), -1)
        found = cast("Chunked", pc.index_in(subscriptions, pa.array(self._names, pa.string())))
        of = found.fill_null(pa.scalar(-1, pa.int32())).to_numpy().astype(np.int64)
        at = np.searchsorted(self._keys, of * _GROUPS_MAX + groups, side="left") - 1
        belongs: npt.NDArray[np.bool_] = (
            (of >= 0) & (at >= 0) & (self._of[at] == of) & (groups <= self._ended[at])
        )
        return np.where(belongs, at, -1)


def read_incarnations(view: TableView, reader: FileReader, findings: Findings) -> Incarnations:
    """Read every event into memory: they are few."""
    last: dict[tuple[str, int], _Event] = {}
    said: dict[str, Said] = {}
    transactions: dict[str, list[tuple[int, str]]] = {}
    for file in view.of(topic_log_schema.SUBSCRIPTION):
        if not reader.present(file):
            continue
        for table in reader.row_groups_of(file):
            for row in table.to_pylist():
                one = _Event(
                    row["group"],
                    row["event"] in BEGINNINGS,
                    row["subscription"],
                    row["topic"],
                    row["selector"] is None and not row["no_local"],
                    row["floor"],
                )
                _check_event(one, row["event"], view, findings)
                if row["event"] in NOT_OF_SUBSCRIPTIONS:
                    if row["event"] != SubscriptionEvent.SCHEMA:
                        of = transactions.setdefault(one.subscription, [])
                        of.append((one.group, row["event"]))
                    continue
                _check_policy(one, row["policy"] or "", view, findings)
                if one.group >= said.get(one.subscription, _NOTHING).group:
                    policy = row["policy"] or ""
                    said[one.subscription] = Said(one.group, bool(row["paused"]), policy)
                if not one.begins and row["event"] != SubscriptionEvent.DELETED:
                    continue
                known = last.get((one.subscription, one.group))
                if known is None or one.begins >= known.begins:
                    last[one.subscription, one.group] = one
    events = sorted(last.values(), key=lambda e: (e.subscription, e.group))
    return Incarnations(_incarnations(events), said, tuple(_prepared(transactions, view, findings)))


def _prepared(
    transactions: dict[str, list[tuple[int, str]]], view: TableView, findings: Findings
) -> Iterator[str]:
    """Yield the global ids of transactions without an end. Each is prepared or decided, ends, and
    may then begin again."""
    for name, unsorted in sorted(transactions.items()):
        events = sorted(unsorted)
        for nth, (group, word) in enumerate(events):
            if (word in OPEN_TRANSACTIONS) != (nth % 2 == 0):
                before = events[nth - 1][1] if nth else "neither prepared nor decided"
                findings.problem(
                    f"the event {word} of {name} in group {group} of {view.uri} can't be: the "
                    f"transaction was {before} before. "
                    "Restore the table from a copy"
                )
                break
        if events[-1][1] in OPEN_TRANSACTIONS:
            yield name.partition("/")[2]


def _check_event(one: _Event, word: str, view: TableView, findings: Findings) -> None:
    group, sequence = view.state.group, view.state.sequence
    if word not in set(SubscriptionEvent) or one.floor > sequence or one.group > group:
        findings.problem(
            f"the event {word} of {one.subscription} in group {one.group} with floor {one.floor} "
            f"can't be: the table ends with group {group} and sequence {sequence}. "
            "Restore the table from a copy"
        )


def _check_policy(one: _Event, policy: str, view: TableView, findings: Findings) -> None:
    """Check a policy: a gateway that can't read a subscription's policy doesn't start."""
    try:
        policy_table.over(DEFAULT, policy_table.of_text(policy, "policy"), "policy")
    except InvalidRequest as error:
        findings.problem(
            f"the event of {one.subscription} in group {one.group} of {view.uri} has a policy that "
            f"is none: {error}. Restore the table from a copy"
        )


def _incarnations(events: list[_Event]) -> list[Incarnation]:
    made: list[Incarnation] = []
    for nth, one in enumerate(events):
        if not one.begins:
            continue
        after = events[nth + 1] if nth + 1 < len(events) else None
        ended = after.group if after and after.subscription == one.subscription else None
        made.append(
            Incarnation(one.subscription, one.topic, one.owes_all, one.floor, one.group, ended)
        )
    return made
