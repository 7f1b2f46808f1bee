"""Judges a history, in the manner of Jepsen's total-queue: each accepted message must come out.

Pure: the same history gives the same report. A message that was sent again because its outcome was
unknown may be there as often as it was sent, unless the topic detects duplicates; any other is
there once.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from history import (
    DeadLettered,
    Delivered,
    Drained,
    Ended,
    Event,
    Harmed,
    How,
    Leaving,
    Left,
    Lost,
    Publish,
    Published,
    Recovered,
    Said,
    Searched,
    Settle,
    Settled,
    Subscribed,
)

#: Failed attempts until a message is given up: the gateway's default.
ATTEMPTS = 10
#: Names shown of what is wrong; the rest is in the history.
SHOWN_MAX = 5


@dataclass(frozen=True, slots=True)
class Report:
    """Counts, and what is wrong as (subscription, message)."""

    attempted: int = 0  #: messages that publishers tried to send
    acknowledged: int = 0  #: of them persistent and accepted
    delivered: int = 0  #: deliveries that consumers saw
    redelivered: int = 0  #: of them not the first of their message to their subscription
    duplicated: int = 0  #: messages settled more often than once, as they were sent again
    lost: tuple[tuple[str, str], ...] = ()  #: accepted, owed, and never came to an end
    wrong: tuple[tuple[str, str], ...] = ()  #: came to a subscription of another topic
    settled_then_redelivered: tuple[tuple[str, str], ...] = ()  #: confirmed, and it came again
    never_sent: tuple[tuple[str, str], ...] = ()  #: no client published it
    doubled: tuple[tuple[str, str], ...] = ()  #: two consumers, or one twice, at the same time
    reordered: tuple[tuple[str, str], ...] = ()  #: first came behind a later one of its publisher
    unmarked: tuple[tuple[str, str], ...] = ()  #: seen before an end, came again as if new
    marked: tuple[tuple[str, str], ...] = ()  #: marked although it can't have been delivered
    unburied: tuple[tuple[str, str], ...] = ()  #: confirmed as rejected, and there is no copy
    buried_unasked: tuple[tuple[str, str], ...] = ()  #: more copies than it was given up
    buried_and_settled: tuple[tuple[str, str], ...] = ()  #: a copy, and confirmed as accepted, too

    @property
    def violations(self) -> dict[str, tuple[tuple[str, str], ...]]:
        found = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, tuple) and value}

    @property
    def sound(self) -> bool:
        return not self.violations

    def __str__(self) -> str:
        counts = (
            f"attempted {self.attempted}, acknowledged {self.acknowledged}, "
            f"delivered {self.delivered}, redelivered {self.redelivered}, "
            f"duplicated {self.duplicated}"
        )
        wrong = [
            f"{name} {len(found)}: {', '.join(' '.join(one) for one in found[:SHOWN_MAX])}"
            for name, found in self.violations.items()
        ]
        return "; ".join([counts, *wrong])


@dataclass(slots=True)
class _Delivery:
    """The deliveries of one message to one subscription."""

    count: int = 0
    holders: Counter[str] = field(default_factory=Counter)
    at_hand: Counter[str] = field(default_factory=Counter)  #: likewise, with any owner of the log
    said: int = 0  #: final outcomes given
    confirmed: int = 0  #: final outcomes that the gateway has confirmed
    must_be_marked: bool = False  #: held by a consumer when the gateway ended, however it did
    given_up: int = 0  #: rejections given
    failed: int = 0  #: failures given
    rejected: int = 0  #: rejections that the gateway has confirmed
    dead_lettered: int = 0  #: copies among the dead letters


@dataclass(slots=True)
class _Message:
    """One message as its publisher knows it."""

    publish: Publish
    owed_to: frozenset[str]
    sent: int = 1
    copies: int = 1  #: at most so many are in the log
    accepted: int = 0
    may_be_marked: bool = False  #: it was there, or on its way, when the power went


class Checker:
    """Reads a history from its first event to its last; `report` then says what it was like.

    `flags`: whether delivery counts are judged too. `once`: topics detect duplicates, so a message
    that was sent again is there once.
    """

    def __init__(self, *, flags: bool = True, once: bool = False) -> None:
        self._flags, self._once = flags, once
        self._harmed = False
        self._subscriptions: dict[str, Subscribed] = {}
        self._drained: set[str] = set()
        self._searched: set[str] = set()
        self._messages: dict[str, _Message] = {}
        self._deliveries: dict[tuple[str, str], _Delivery] = {}
        self._latest: dict[tuple[str, str], int] = {}
        self._may_be_marked: dict[str, int] = {}
        self._marked: dict[str, list[tuple[str, str]]] = {}
        self._found: dict[str, list[tuple[str, str]]] = {}
        #: Consumers that have asked to go, and had no answer.
        self._leaving: set[str] = set()
        self._delivered = 0

    def read(self, events: Iterable[Event]) -> "Checker":
        for event in events:
            self._take(event)
        return self

    def _take(self, event: Event) -> None:  # noqa: C901 (one case for each kind of event)
        match event:
            case Subscribed():
                self._subscriptions[event.subscription] = event
            case Publish():
                self._publish(event)
            case Published():
                self._messages[event.message].accepted += 1
            case Delivered():
                self._deliver(event)
            case Settle():
                delivery = self._delivery(event.subscription, event.message)
                delivery.said += event.said.final
                delivery.given_up += event.said is Said.REJECTED
                delivery.failed += event.said is Said.FAILED
                for held in (delivery.holders, delivery.at_hand):
                    held[event.consumer] -= held[event.consumer] > 0
            case Settled():
                delivery = self._delivery(event.subscription, event.message)
                delivery.confirmed += event.said.final
                delivery.rejected += event.said is Said.REJECTED
            case Leaving():
                self._leaving.add(event.consumer)
            case Left():
                self._leaving.discard(event.consumer)
                for delivery in self._deliveries.values():
                    delivery.holders.pop(event.consumer, None)
                    delivery.at_hand.pop(event.consumer, None)
            case Lost():
                for delivery in self._deliveries.values():
                    delivery.holders.pop(event.consumer, None)
                    delivery.must_be_marked |= delivery.at_hand.pop(event.consumer, 0) > 0
                self._allow_marks()  # messages on their way to that consumer
            case Ended():
                self._end(event)
            case Harmed() | Recovered():
                self._harmed = isinstance(event, Harmed)
                for delivery in self._deliveries.values():
                    delivery.holders.clear()
                self._allow_marks()
            case Drained():
                self._drained.add(event.subscription)
            case DeadLettered():
                self._dead_letter(event)
            case Searched():
                self._searched.add(event.subscription)

    def _publish(self, event: Publish) -> None:
        known = self._messages.get(event.message)
        if known is not None:
            known.sent += 1
            known.copies += not self._once
            return
        owed_to = {name for name, s in self._subscriptions.items() if s.claims(event.topic)}
        self._messages[event.message] = _Message(event, frozenset(owed_to))

    def _delivery(self, subscription: str, message: str) -> _Delivery:
        return self._deliveries.setdefault((subscription, message), _Delivery())

    def _wrong(self, kind: str, where: tuple[str, str]) -> None:
        self._found.setdefault(kind, []).append(where)

    def _deliver(self, event: Delivered) -> None:
        self._delivered += 1
        where = event.subscription, event.message
        message = self._messages.get(event.message)
        if message is None:
            self._wrong("never_sent", where)
            return
        if not self._subscriptions[event.subscription].claims(message.publish.topic):
            self._wrong("wrong", where)
            return
        delivery = self._delivery(*where)
        if delivery.confirmed >= message.copies:
            self._wrong("settled_then_redelivered", where)
        elif self._doubled(event, message, delivery):
            self._wrong("doubled", where)
        if message.sent == 1:
            self._order(event, message, delivery)
            self._mark(event, message, delivery)
        delivery.count += 1
        delivery.holders[event.consumer] += 1
        delivery.at_hand = Counter((event.consumer,))  # others' are void, if there are any

    def _doubled(self, event: Delivered, message: _Message, delivery: _Delivery) -> bool:
        if self._harmed or event.consumer in self._leaving:
            return False
        return self._held(delivery) >= message.copies

    def _held(self, delivery: _Delivery) -> int:
        """How often consumers have the message beyond doubt. One that has asked to go may have
        gone before it heard the answer: what it had is given to others then, and they may be read
        before it is."""
        return sum(n for who, n in delivery.holders.items() if who not in self._leaving)

    def _dead_letter(self, event: DeadLettered) -> None:
        where = event.subscription, event.message
        message = self._messages.get(event.message)
        if message is None:
            self._wrong("never_sent", where)
            return
        delivery = self._delivery(*where)
        delivery.dead_lettered += 1
        if delivery.dead_lettered > delivery.given_up + delivery.failed // ATTEMPTS:
            self._wrong("buried_unasked", where)
        if delivery.dead_lettered + delivery.confirmed - delivery.rejected > message.copies:
            self._wrong("buried_and_settled", where)

    def _order(self, event: Delivered, message: _Message, delivery: _Delivery) -> None:
        """Messages of one publisher come for the first time in the order in which they went."""
        if delivery.count or not self._subscriptions[event.subscription].exclusive:
            return
        line = event.subscription, message.publish.publisher
        if message.publish.number < self._latest.get(line, -1):
            self._wrong("reordered", (event.subscription, event.message))
        self._latest[line] = max(message.publish.number, self._latest.get(line, -1))

    def _mark(self, event: Delivered, message: _Message, delivery: _Delivery) -> None:
        where = event.subscription, event.message
        if delivery.must_be_marked and not event.delivery_count:
            self._wrong("unmarked", where)
        may_be = message.may_be_marked or self._harmed
        if not delivery.count and event.delivery_count and not may_be:
            self._marked.setdefault(event.subscription, []).append(where)
        delivery.must_be_marked = False

    def _allow_marks(self) -> None:
        """Each message published so far may come marked as redelivered."""
        for message in self._messages.values():
            message.may_be_marked = True

    def _end(self, event: Ended) -> None:
        """Messages that consumers held may have been delivered: they must be marked, as the gateway
        ended their connections; unless a consumer had asked to go: it may have gone before, and
        messages given back aren't marked. Of messages on their way, which no consumer has seen, as
        many as there was credit for may be marked; after a power cut all published until then."""
        for delivery in self._deliveries.values():
            delivery.must_be_marked |= self._held(delivery) > 0
            delivery.holders.clear()
        self._leaving.clear()
        if event.how in {How.POWER_CUT, How.CUT_OFF}:
            self._allow_marks()
        else:
            for name, credit in event.credit.items():
                self._may_be_marked[name] = self._may_be_marked.get(name, 0) + credit

    def report(self) -> Report:
        """The counts and violations of the history."""
        found = {kind: tuple(where) for kind, where in self._found.items()}
        found["marked"] = tuple(
            where
            for name, marked in self._marked.items()
            for where in marked
            if len(marked) > self._may_be_marked.get(name, 0)
        )
        if not self._flags:
            found["marked"] = found["unmarked"] = ()
        found["lost"] = tuple(self._lost())
        found["unburied"] = tuple(
            (subscription, message)
            for (subscription, message), delivery in self._deliveries.items()
            if subscription in self._searched and delivery.dead_lettered < delivery.rejected
        )
        promised = [m for m in self._messages.values() if m.publish.kept and m.accepted]
        return Report(
            attempted=len(self._messages),
            acknowledged=len(promised),
            delivered=self._delivered,
            redelivered=sum(max(d.count - 1, 0) for d in self._deliveries.values()),
            duplicated=sum(d.confirmed > 1 for d in self._deliveries.values()),
            **found,
        )

    def _lost(self) -> Iterable[tuple[str, str]]:
        for name, message in self._messages.items():
            if not message.publish.kept or not message.accepted:
                continue
            for subscription in sorted(message.owed_to & self._drained):
                delivery = self._deliveries.get((subscription, name))
                if delivery is None or not (delivery.said or delivery.dead_lettered):
                    yield subscription, name


def check(events: Iterable[Event], *, flags: bool = True, once: bool = False) -> Report:
    """The report on a whole history."""
    return Checker(flags=flags, once=once).read(events).report()
