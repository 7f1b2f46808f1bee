"""One subscription in words: the strip of its cursor, why it stands still, what its policy is and
where each value comes from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from distributary.ingest.console.insight.spoken_numbers import age, messages
from distributary.pipeline.amqp.dead_letter import PREFIX

#: Attributes of an entity.
Row = Mapping[str, Any]
#: The strip's width in its own units, and of a part that isn't empty the least.
STRIP_WIDTH: Final = 1_000
PART_WIDTH_MIN: Final = 14
#: Settled ranges of the strip, whose number has no limit.
SETTLED_WIDTH: Final = 160
#: Seconds for which a consumer may hold a message until that is a reason.
HELD_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class StripPart:
    """A part of the strip: a word for its color, a label, how many, where it lies."""

    kind: str
    label: str
    count: int | None
    x: int
    width: int


def strip(row: Row, dead: int | None) -> list[StripPart]:
    """The cursor: settled, in flight, read and waiting, not read yet; and the dead letters
    beside it, where they can be seen."""
    in_flight = int(row["in_flight"])
    waiting = max(int(row["outstanding"]) - in_flight, 0)
    later = max(int(row["backlog"]) - int(row["outstanding"]), 0)
    counts = [
        ("inflight", "in flight", in_flight),
        ("ready", "read, waiting", waiting),
        ("later", "not read yet", later),
        *([("dead", "dead letters", dead)] if dead is not None else []),
    ]
    total = sum(count for _, _, count in counts)
    there = sum(1 for _, _, count in counts if count)
    room = STRIP_WIDTH - SETTLED_WIDTH - there * PART_WIDTH_MIN
    parts = [StripPart("settled", "settled", None, 0, SETTLED_WIDTH if total else STRIP_WIDTH)]
    x = parts[0].width
    for kind, label, count in counts:
        width = PART_WIDTH_MIN + room * count // total if count else 0
        parts.append(StripPart(kind, label, count, x, width))
        x += width
    return parts


def dead_letter_queue(row: Row) -> str | None:
    """The name of the queue of its dead letters; None if none are kept."""
    if "dead_letters" in row:
        said: str | None = row["dead_letters"]
        return said
    policy = row["policy_in_force"]  # a gateway of before doesn't say it
    if not policy["dead_letter"]:
        return None
    named = str(policy["dead_letter_address"]).removeprefix("queue://")
    name = str(row.get("subscription") or row["name"])
    return named or f"{PREFIX}{name}"


def why_stuck(row: Row, now_ms: float) -> list[str]:
    """Why messages wait that it is owed, the plainest reason first; empty if nothing waits."""
    backlog = int(row["backlog"])
    if row["unreadable"]:
        return [f"A page of its messages can't be read: {row['unreadable']}."]
    if not backlog:
        return []
    found = []
    if row["paused"]:
        found.append(f"It is paused: {messages(backlog)} wait until it is resumed.")
    links: Sequence[Row] = row["links"]
    if not links:
        found.append(f"No consumer is attached: {messages(backlog)} wait for one.")
    elif not row["paused"]:
        found += _of_consumers(row, links, now_ms)
    return found


def _of_consumers(row: Row, links: Sequence[Row], now_ms: float) -> Iterable[str]:
    active = [link for link in links if link["active"]]
    if not active:
        yield "It serves one consumer at a time, and that one has just gone."
    without = [link for link in active if not link["credit"]]
    if active and len(without) == len(active):
        held = sum(int(link["in_flight"]) for link in active)
        if held:
            yield (
                f"No consumer has credit left: they hold {messages(held)} and take more when they "
                "have settled some."
            )
        else:
            yield "No consumer gives credit: they are attached, hold nothing and ask for nothing."
    for link in active:
        since = link["oldest_delivered_at"]
        if since is not None and now_ms - since > HELD_SECONDS * 1_000:
            some, long = messages(int(link["in_flight"])), age((now_ms - since) / 1_000)
            yield f"{link['name']} holds {some}, the oldest for {long}."
    if len(without) < len(active) and not row["in_flight"]:
        yield (
            "Consumers have credit and nothing is in flight: what waits is delayed, or doesn't "
            "match their selectors."
        )


@dataclass(frozen=True, slots=True)
class Share:
    """A consumer with its share of the deliveries in flight."""

    link: Row
    part: float
    held_seconds: float | None


def shares(row: Row, now_ms: float) -> list[Share]:
    """All of its consumers, those that hold most first."""
    total = sum(int(link["in_flight"]) for link in row["links"])
    found = [
        Share(
            link,
            int(link["in_flight"]) / total if total else 0.0,
            None
            if link["oldest_delivered_at"] is None
            else max(now_ms - link["oldest_delivered_at"], 0) / 1_000,
        )
        for link in row["links"]
    ]
    return sorted(found, key=lambda one: (-int(one.link["in_flight"]), str(one.link["name"])))


@dataclass(frozen=True, slots=True)
class PolicyLine:
    """One key of a policy: the value in force, and its source."""

    key: str
    value: str
    source: str
    own: bool


def policy_lines(in_force: Mapping[str, object], sources: Mapping[str, str]) -> list[PolicyLine]:
    """The whole policy of a subscription or topic, its own values first, defaults last."""
    lines = [
        PolicyLine(
            key,
            said(value),
            {"own": "its own"}.get(sources.get(key, ""), sources.get(key, "default")),
            sources.get(key) == "own",
        )
        for key, value in in_force.items()
    ]
    return sorted(lines, key=lambda line: (not line.own, line.source == "default"))


def said(value: object) -> str:
    """A value of a policy as it is written."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value:,}"
        case list():
            return ", ".join(map(str, value)) or "none"
    return str(value) or "none"
