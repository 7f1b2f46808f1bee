"""Effects of another policy of its own on a subscription: each key that changes, and whether
messages are or may be dropped by it.

The value in force after a key is removed isn't known here: the policies file may have one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from distributary.ingest.console.insight.spoken_numbers import age, messages, number, size
from distributary.pipeline.model.policy import Lifetime, Overflow

#: The end of the oldest messages of a full backlog, by the policy's value.
_GONE: Final = {
    Overflow.DROP_OLDEST.value: "the oldest are dropped",
    Overflow.DEAD_LETTER.value: "the oldest become dead letters",
}


@dataclass(frozen=True, slots=True)
class PolicyEffects:
    """In sentences; `drops`: messages are or may be dropped, now or later."""

    sentences: tuple[str, ...] = ()
    drops: bool = False


NO_EFFECTS: Final = PolicyEffects()


def policy_effects(row: Mapping[str, Any], wanted: Mapping[str, object]) -> PolicyEffects:
    """Effects when `wanted` becomes the subscription's own policy."""
    before: Mapping[str, object] = row["policy"]
    changed = {key for key in {*before, *wanted} if before.get(key) != wanted.get(key)}
    kept = {key: value for key, value in row["policy_in_force"].items() if key not in before}
    after = {**kept, **wanted}
    lost = [
        *_too_much(row, after, changed),
        *_ends(row, after, changed),
        *_without_copies(after, changed),
    ]
    refused = list(_refused(row, after, changed))
    return PolicyEffects((*changes(before, wanted), *refused, *lost), bool(lost))


def changes(before: Mapping[str, object], wanted: Mapping[str, object]) -> tuple[str, ...]:
    """Changes of a subscription's own policy, a sentence for each key."""
    found = []
    for key in sorted({*before, *wanted}):
        old, new = before.get(key), wanted.get(key)
        if old == new:
            continue
        if key not in wanted:
            found.append(f"{key}: {old} no more, but the file's value or the default.")
        elif key not in before:
            found.append(f"{key}: {new} from now on.")
        else:
            found.append(f"{key}: {new} instead of {old}.")
    return tuple(found)


def _limit(after: Mapping[str, object], key: str) -> int:
    value = after.get(key, 0)
    return value if isinstance(value, int) else 0


def _too_much(
    row: Mapping[str, Any], after: Mapping[str, object], changed: set[str]
) -> Iterable[str]:
    """Limits of the backlog whose overflow takes messages away."""
    gone = _GONE.get(str(after.get("backlog_overflow")))
    if gone is None or not any(key.startswith("backlog_") for key in changed):
        return
    most, backlog = _limit(after, "backlog_messages_max"), int(row["backlog"])
    if most:
        now = f", {number(backlog - most)} of them at once" if backlog > most else ""
        yield f"Of more than {messages(most)} {gone}{now}: it has {number(backlog)}."
    if most := _limit(after, "backlog_bytes_max"):
        yield f"Of more than {size(most)} {gone}: it has {size(int(row['backlog_bytes']))}."
    if most := _limit(after, "backlog_age_ms_max"):
        yield f"Of messages that wait for longer than {age(most / 1_000)} {gone}."


def _refused(
    row: Mapping[str, Any], after: Mapping[str, object], changed: set[str]
) -> Iterable[str]:
    most, backlog = _limit(after, "backlog_messages_max"), int(row["backlog"])
    refuses = after.get("backlog_overflow") == Overflow.REFUSE.value
    if refuses and 0 < most <= backlog and any(key.startswith("backlog_") for key in changed):
        yield f"Publishers are refused while {messages(most)} or more wait: {number(backlog)} do."


def _ends(row: Mapping[str, Any], after: Mapping[str, object], changed: set[str]) -> Iterable[str]:
    """Whether the subscription ends by itself, with its backlog. Queues don't."""
    word = str(after.get("expiry", Lifetime.NEVER.value))
    never = word == Lifetime.NEVER.value or str(row["name"]).startswith("queue/")
    if not never and changed & {"expiry", "expiry_seconds"}:
        seconds = _limit(after, "expiry_seconds")
        yield (
            f"It ends by itself, with all that it is owed then, {age(seconds)} after {word} of its "
            f"last consumer; it has {number(int(row['consumers']))} now."
        )


def _without_copies(after: Mapping[str, object], changed: set[str]) -> Iterable[str]:
    if "dead_letter" in changed and after.get("dead_letter") is False:
        yield "Messages given up from now on are gone: no dead letter keeps them."
