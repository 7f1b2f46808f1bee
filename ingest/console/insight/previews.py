"""Effects of an operation, in sentences with numbers: shown before the user confirms it.

Rule 1: numbers are of the moment in which the page was made; the gateway's answer has the real
        ones.
Rule 2: where messages are or may be dropped the user types the name of the object that loses
        them (`is_typed`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, assert_never

from distributary.ingest.console.insight.policy_effects import NO_EFFECTS, PolicyEffects
from distributary.ingest.console.insight.spoken_numbers import messages, number
from distributary.pipeline.management.management_messages import Verb

Row = Mapping[str, Any]


class Offer(StrEnum):
    """An operation that the page of a subscription offers; the words stand in addresses."""

    PAUSE = "pause"
    RESUME = "resume"
    REWIND = "rewind"
    SKIP = "skip"
    REDRIVE = "redrive"
    POLICY = "policy"
    CLOSE = "close"
    PURGE = "purge"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Shown:
    """How an operation is shown: its title, its button, the verb that is sent, whether the name is
    always typed before; `field` is the one that it needs, with its label."""

    title: str
    button: str
    verb: Verb
    typed: bool = False
    field: str = ""
    label: str = ""


OFFERS: Final[Mapping[Offer, Shown]] = {
    Offer.PAUSE: Shown("Pause", "Pause", Verb.PAUSE),
    Offer.RESUME: Shown("Resume", "Resume", Verb.RESUME),
    Offer.REWIND: Shown(
        "Rewind",
        "Rewind",
        Verb.REWIND,
        typed=True,  # the place may lie ahead
        field="to",
        label="Back to: a sequence, a time, or how long ago (120000, 2026-11-21T08:30:00Z, 2h)",
    ),
    Offer.SKIP: Shown(
        "Skip",
        "Skip",
        Verb.SKIP,
        typed=True,
        field="to",
        label="Ahead to: a sequence, a time, how long ago, or now",
    ),
    Offer.REDRIVE: Shown(
        "Redrive dead letters", "Redrive", Verb.REDRIVE, field="max", label="At most (empty: all)"
    ),
    Offer.POLICY: Shown(
        "Policy",
        "Set the policy",
        Verb.UPDATE,
        field="policy",
        label="Its own policy, a KEY=VALUE on each line; the rest is the file's word or a default",
    ),
    Offer.CLOSE: Shown(
        "Close links",
        "Close the links",
        Verb.CLOSE,
        field="consumer",
        label="Of this consumer alone (empty: of all)",
    ),
    Offer.PURGE: Shown("Purge", "Purge", Verb.PURGE, typed=True),
    Offer.DELETE: Shown("Delete", "Delete", Verb.DELETE, typed=True),
}


@dataclass(frozen=True, slots=True)
class Found:
    """Facts for a preview: a place with its sequence and how many messages lie from
    there on (None: it isn't known), how many dead letters wait in which queue, effects of another
    policy, the chosen consumer (empty: all)."""

    to: str = ""
    sequence: int | None = None
    from_there: int | None = None
    dead: int | None = None
    letters: str | None = None
    most: int | None = None
    policy: PolicyEffects = NO_EFFECTS
    consumer: str = ""


def is_typed(offer: Offer, found: Found) -> bool:
    """Whether the name is typed before it is done."""
    return OFFERS[offer].typed or found.policy.drops


def effects(offer: Offer, row: Row, found: Found) -> list[str]:
    """Effects of the operation, the most important first."""
    return list(_effects(offer, row, found))


def _effects(offer: Offer, row: Row, found: Found) -> Iterable[str]:
    backlog, in_flight, consumers = (int(row[key]) for key in ("backlog", "in_flight", "consumers"))
    match offer:
        case Offer.PAUSE:
            yield f"Nothing is delivered until it is resumed; {_waiting(row)} already."
            in_hand = messages(in_flight)
            yield f"{_links(consumers)}; the deliveries that they hold ({in_hand}) can be settled."
        case Offer.RESUME:
            them = _number_of(consumers, "consumer")
            yield f"Delivery goes on: {_waiting(row)} for {them}."
        case Offer.REWIND:
            yield from _rewound(row, found)
        case Offer.SKIP:
            yield from _skipped(row, found)
        case Offer.PURGE:
            yield f"{_dropped(row, backlog)}: it is owed only messages that come from now on."
            yield f"Of these consumers hold {messages(in_flight)}; their outcomes won't count."
            yield "They stay in the log as long as all else: a rewind brings them back."
        case Offer.REDRIVE:
            yield from _redriven(found)
        case Offer.POLICY:
            yield from found.policy.sentences or ("Nothing changes.",)
        case Offer.CLOSE:
            links = [one for one in row["links"] if found.consumer in ("", one["name"])]
            ended = _number_of(len(links), "link")
            held = sum(int(one["in_flight"]) for one in links)
            yield f"Ended with amqp:link:detach-forced: {ended}. Clients may come again."
            yield f"Their deliveries go to the next consumer: {messages(held)}."
        case Offer.DELETE:
            yield f"It is owed nothing any more. {_dropped(row, backlog)}."
            yield f"Ended with amqp:resource-deleted: {_number_of(consumers, 'link')}."
            yield "Published messages stay in the log as long as others; its cursor is gone."
        case _ as never:
            assert_never(never)


def _rewound(row: Row, found: Found) -> Iterable[str]:
    yield _place(row, found)
    if found.from_there is not None:
        again = max(found.from_there - int(row["backlog"]), 0)
        yield (
            f"It is owed {_at_most(row)}{messages(found.from_there)} from there on: "
            f"{number(again)} more than the {number(row['backlog'])} that wait now."
        )
    yield "Messages that were settled from there on are delivered again; consumers go on."
    yield "Messages before that place aren't owed any more."


def _skipped(row: Row, found: Found) -> Iterable[str]:
    yield _place(row, found)
    if found.from_there is not None:
        dropped = max(int(row["backlog"]) - found.from_there, 0)
        kept = int(row["backlog"]) - dropped
        yield f"{_dropped(row, dropped)}; {number(kept)} of its backlog stay."
    yield "They stay in the log as long as all else: a rewind brings them back."


def _redriven(found: Found) -> Iterable[str]:
    if found.letters is None:
        yield "It keeps no dead letters: its policy says dead_letter = false."
    elif found.dead is None:
        yield f"How many dead letters wait in {found.letters} isn't shown to you."
    else:
        count = found.dead if found.most is None else min(found.dead, found.most)
        yield f"Dead letters in {found.letters}: {number(found.dead)}. Going back: {number(count)}."
        yield "They go to this subscription and to no other, oldest first."
        yield "Dead letters that a consumer holds aren't touched."


def _waiting(row: Row) -> str:
    count = int(row["backlog"])
    return f"{_at_most(row)}{messages(count)} wait{'s' if count == 1 else ''}"


def _dropped(row: Row, count: int) -> str:
    return f"Dropped: {_at_most(row)}{messages(count)}"


def _place(row: Row, found: Found) -> str:
    if found.sequence is None:
        return "How much that is can't be said from here: the gateway's table can't be read."
    floor, place = number(row["floor"]), number(found.sequence)
    if found.to.strip().isdigit():
        return f"Its floor is {floor} now and will be {place}."
    return f"{found.to} is sequence {place}. Its floor is {floor} now and will be there."


def _at_most(row: Row) -> str:
    return "at most " if row["selector"] else ""


def _links(consumers: int) -> str:
    stay = "stays" if consumers == 1 else "stay"
    return f"{_number_of(consumers, 'consumer')} {stay} attached"


def _number_of(count: int, thing: str) -> str:
    return f"1 {thing}" if count == 1 else f"{number(count)} {thing}s"
