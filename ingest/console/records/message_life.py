"""The life of one message: published when, owed to whom, delivered to whom, and how that ended.

Rule 1: what a subscription is owed follows from its incarnations: messages of its topic from the
        incarnation's floor on that its selector selects, of groups before its end. What is settled
        as local or forbidden, or as redriven in the message's own group, was never owed.
Rule 2: a settlement belongs to the incarnation that began in a group before its own. A delivery
        that failed for the last time has two: `modified` says when it ended, `dead_lettered` how.
Rule 3: a life is as of a snapshot, and of what was handed in as held now; where the request may
        read no more, it says up to which group it has looked.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.ingest.console.log_rows.log_reader import AsOf, Snapshot
from distributary.ingest.console.log_rows.message_rows import StoredMessage, message_of
from distributary.ingest.console.log_rows.record_limits import RecordLimits
from distributary.ingest.console.log_rows.settlement_rows import (
    NEVER_OWED,
    Floors,
    SettlementOfOne,
    floors_since,
    settled,
)
from distributary.ingest.console.log_rows.sight import Sight
from distributary.ingest.console.log_rows.subscription_lives import Incarnation
from distributary.ingest.console.records.kinship import Kin, kin_of
from distributary.ingest.console.records.message_content import Content, content_of
from distributary.ingest.console.records.removed_messages import RemovedMessage
from distributary.pipeline.errors import DistributaryError, SelectorFailed
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.selector.matching import Selections, selected


@dataclass(frozen=True, slots=True)
class Held:
    """A message in flight now, as a gateway says it. Times are microseconds."""

    subscription: str
    sequence: int
    consumer: str
    delivered_at: int | None
    delivery_count: int


class StayState(StrEnum):
    """How it stands between a message and one incarnation of a subscription."""

    WAITING = "waiting"  #: owed, and no consumer holds it
    IN_FLIGHT = "in flight"
    SETTLED = "settled"
    ENDED = "ended"  #: it was owed when its incarnation ended
    NEVER_OWED = "never owed"  #: though of its topic: its last settlement says why
    NOT_SELECTED = "not selected"
    PASSED = "passed"  #: the floor is above it and no settlement says why: the audit knows more
    UNKNOWN = "unknown"  #: the selector can't be evaluated, or not all was read


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery to one consumer: how it ended and when; `outcome` is None while it lasts.

    `group` is that of its settlement. Times are microseconds; `delivered_at` of what a lost
    consumer held is when that was lost.
    """

    consumer: str
    delivered_at: int | None
    settled_at: int | None
    outcome: Outcome | None
    final: bool
    delivery_count: int
    group: int | None


@dataclass(frozen=True, slots=True)
class Stay:
    """A message with one incarnation of a subscription: owed from `since` (microseconds) on.

    `end` is the settlement that ended it without a consumer, or that says why it was never owed.
    """

    incarnation: Incarnation
    state: StayState
    since: int
    deliveries: tuple[Delivery, ...] = ()
    end: SettlementOfOne | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """A message with one subscription, incarnation by incarnation."""

    subscription: str
    stays: tuple[Stay, ...]

    @property
    def state(self) -> StayState:
        """How it stands with the last one."""
        return self.stays[-1].state


@dataclass(frozen=True, slots=True)
class MessageLife:
    """All that is known of a message, from the log, or, once the log has removed it, from Spark's
    tables: then the message's bytes are empty. `publisher` is empty if it is unknown. `lanes` are
    those that the user may see, up to a limit; `hidden` counts the others. `looked_up_to` is the
    last group whose settlements were read."""

    message: StoredMessage
    content: Content
    publisher: str
    lanes: tuple[Lane, ...]
    hidden: int
    kin: tuple[Kin, ...]
    as_of: AsOf
    looked_up_to: int
    removed: bool = False  #: from the log

    @property
    def whole(self) -> bool:
        """Whether all settlements that there are were looked at."""
        return self.looked_up_to >= self.as_of.group


def life_of(
    snapshot: Snapshot,
    sequence: int,
    *,
    sight: Sight,
    limits: RecordLimits,
) -> MessageLife | None:
    """The life of the message with this sequence; None if the log doesn't have it, or the user may
    not see its topic. Raises Replaced and StoreError."""
    with LogFiles(snapshot.view, limits.read_bytes_max) as files:
        message = message_of(files, sequence)
        if message is None or not sight.topic(message.topic):
            return None
        said = settled(files, sequence, message.group)
        lives = snapshot.lives.of_topic(message.topic)
        lanes = _lanes(message, lives, said.rows)
        if any(stay.state in _OPEN for lane in lanes for stay in lane.stays):
            floors = floors_since(files, message.group)
            lanes = [_with_floors(lane, message, floors) for lane in lanes]
        seen = [lane for lane in lanes if sight.subscription(lane.subscription)]
        shown = seen[: limits.lanes_max]
        content = content_of(message.data, limits)
        return MessageLife(
            message,
            content,
            _publisher(content, said.rows, sight),
            tuple(shown),
            len(lanes) - len(shown),
            kin_of(files, message, said.rows, sight),
            snapshot.as_of,
            said.reached,
        )


def with_held(life: MessageLife, held: Sequence[Held]) -> MessageLife:
    """The life with what a gateway says is in flight now. It comes after what the table knows: a
    settlement that the table has is newer than an answer that lacks it."""
    mine = {one.subscription: one for one in held if one.sequence == life.message.sequence}
    lanes = (
        Lane(
            lane.subscription,
            tuple(_with_held(one, mine.get(lane.subscription)) for one in lane.stays),
        )
        for lane in life.lanes
    )
    return replace(life, lanes=tuple(lanes))


def _with_held(stay: Stay, held: Held | None) -> Stay:
    if held is None or stay.state is not StayState.WAITING:
        return stay
    count = held.delivery_count
    delivery = Delivery(held.consumer, held.delivered_at, None, None, False, count, None)
    return replace(stay, state=StayState.IN_FLIGHT, deliveries=(*stay.deliveries, delivery))


def life_of_removed(
    snapshot: Snapshot, found: RemovedMessage, *, sight: Sight, limits: RecordLimits
) -> MessageLife | None:
    """The life of a message that the log has no more; None if the user may not see its topic.
    Subscriptions whose events went with it are in no lane."""
    message = found.message
    if not sight.topic(message.topic):
        return None
    lanes = _lanes(message, snapshot.lives.of_topic(message.topic), found.rows)
    seen = [lane for lane in lanes if sight.subscription(lane.subscription)]
    shown = tuple(seen[: limits.lanes_max])
    return MessageLife(
        message,
        found.content,
        _publisher(found.content, found.rows, sight),
        shown,
        len(lanes) - len(shown),
        (),
        replace(snapshot.as_of, group=found.group),
        found.group,
        removed=True,
    )


def _publisher(content: Content, rows: Iterable[SettlementOfOne], sight: Sight) -> str:
    """The user that the message names, or the container that no-local knows."""
    if user := content.said("user-id"):
        return user
    return next(
        (
            row.consumer
            for row in rows
            if row.outcome is Outcome.LOCAL and sight.subscription(row.subscription)
        ),
        "",
    )


def _lanes(
    message: StoredMessage, lives: Sequence[Incarnation], said: Sequence[SettlementOfOne]
) -> list[Lane]:
    """A lane for each subscription that was ever owed it, or would have been but for its selector
    or no-local, by name."""
    owing = [one for one in lives if one.owes(message.sequence, message.group)]
    selections = _Selected(message)
    rows: dict[str, list[SettlementOfOne]] = {}
    for row in said:
        rows.setdefault(row.subscription, []).append(row)
    stays: dict[str, list[Stay]] = {}
    for one in owing:
        own = [row for row in rows.get(one.subscription, ()) if one.has(row.group)]
        stays.setdefault(one.subscription, []).append(_stay(message, one, own, selections))
    return [Lane(name, tuple(stays[name])) for name in sorted(stays)]


def _stay(
    message: StoredMessage,
    one: Incarnation,
    rows: Sequence[SettlementOfOne],
    selections: "_Selected",
) -> Stay:
    since = max(message.published_at, one.began.at)
    never = next((row for row in rows if _never(row, message)), None)
    if never is not None:
        return Stay(one, StayState.NEVER_OWED, since, end=never)
    deliveries = _deliveries(rows)
    final = next((row for row in rows if row.final), None)
    if final is not None:
        undelivered = None if final.delivered_at is not None else final
        return Stay(one, StayState.SETTLED, since, deliveries, undelivered)
    match selections.by(one):
        case None:
            state = StayState.UNKNOWN
        case False:
            state = StayState.NOT_SELECTED
        case True:
            state = StayState.WAITING if one.ended is None else StayState.ENDED
    return Stay(one, state, since, deliveries)


#: States of stays without a final settlement.
_OPEN = frozenset({StayState.WAITING, StayState.ENDED})


def _with_floors(lane: Lane, message: StoredMessage, floors: Floors) -> Lane:
    """The lane with its open stays checked against the subscription's floor."""
    return Lane(lane.subscription, tuple(_with_floor(one, message, floors) for one in lane.stays))


def _with_floor(stay: Stay, message: StoredMessage, floors: Floors) -> Stay:
    if stay.state not in _OPEN:
        return stay
    one = stay.incarnation
    ended = None if one.ended is None else one.ended.group
    if floors.highest(one.subscription, one.began.group, ended) > message.sequence:
        return replace(stay, state=StayState.PASSED)
    return stay


def _never(row: SettlementOfOne, message: StoredMessage) -> bool:
    if row.outcome is Outcome.REDRIVEN:
        return row.group == message.group
    return row.outcome in NEVER_OWED


def _deliveries(rows: Sequence[SettlementOfOne]) -> tuple[Delivery, ...]:
    """The deliveries in these rows; the two rows of a last failure are one."""
    found: list[Delivery] = []
    for row in rows:
        if row.delivered_at is None:
            continue
        last = found[-1] if found else None
        if row.outcome is Outcome.DEAD_LETTERED and last is not None and _same(last, row):
            found[-1] = replace(last, outcome=row.outcome, final=row.final, group=row.group)
            continue
        found.append(
            Delivery(
                row.consumer,
                row.delivered_at,
                row.settled_at,
                row.outcome,
                row.final,
                row.delivery_count,
                row.group,
            )
        )
    return tuple(sorted(found, key=lambda one: (one.delivered_at or 0, one.settled_at or 0)))


def _same(delivery: Delivery, row: SettlementOfOne) -> bool:
    return (
        delivery.outcome is Outcome.MODIFIED
        and not delivery.final
        and (delivery.consumer, delivery.delivered_at) == (row.consumer, row.delivered_at)
    )


class _Selected:
    """Results of selectors for one message; each text is evaluated once."""

    def __init__(self, message: StoredMessage) -> None:
        offsets = array("i", [0, len(message.data)]).tobytes()
        self._batch = RecordBatch(message.sequence, 1, message.data, offsets)
        self._known: dict[str, bool | None] = {}

    def by(self, one: Incarnation) -> bool | None:
        """Whether its selector selects the message; None where that can't be evaluated."""
        if one.selector is None:
            return True
        if not self._batch.blob:
            return None
        if one.selector not in self._known:
            self._known[one.selector] = self._ask(one)
        return self._known[one.selector]

    def _ask(self, one: Incarnation) -> bool | None:
        definition = Definition(one.topic, shared=True, selector=one.selector)
        selections = Selections()
        try:
            selections.join(definition)
            return bool(selected(selections, definition, self._batch))
        except (SelectorFailed, DistributaryError):
            return None
