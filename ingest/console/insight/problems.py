"""Problems of a gateway, found in its readings by a table of rules, the worst first.

Rule 1: each row of RULES is one thing that can be wrong; it gives a sentence and where to look.
Rule 2: a problem of up to NAMED_MAX subscriptions names each of them; of more it gives the number,
        and links to the list.
Rule 3: subscriptions that the visitor may not see are never named or counted.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from distributary.ingest.cli.watching.metric_readings import GatewayNow, SubscriptionNow
from distributary.ingest.console.insight.spoken_numbers import age, messages, moment, number, share

#: Subscriptions with one trouble that are named.
NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Problem:
    """One sentence, and where to look at it (empty: nowhere). `bad`: messages aren't taken or
    delivered, or may be lost; else it is a warning."""

    sentence: str
    path: str = ""
    words: str = ""
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on it is said."""

    backlog_age_seconds: float
    journal_part: float
    commit_lag_seconds: float
    loop_stall_ms: float


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another gateway that the console was told of, and its state: `stands by`,
    `serves`, or nothing (empty)."""

    address: str
    state: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Known facts of a gateway. Times are milliseconds since 1970; `failed_since`: since when the
    metrics don't come, and why; `paused`: ids of paused subscriptions; `visible`: those that may
    be seen; `missing`: why logs of a lake can't be asked."""

    found: GatewayNow | None
    at: float | None
    failed_since: float | None
    why: str
    paused: Collection[str]
    visible: Collection[str]
    neighbours: Sequence[Neighbour]
    missing: Mapping[str, str]


Rule = Callable[[Facts, Thresholds], Iterable[Problem]]


def problems(facts: Facts, limits: Thresholds) -> list[Problem]:
    """All that is wrong."""
    return [found for rule in RULES for found in rule(facts, limits)]


def _unreachable(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    if facts.failed_since is not None:
        known = f" The numbers here are of {moment(facts.at)}." if facts.at else ""
        since = moment(facts.failed_since)
        yield Problem(f"No metrics since {since}: {facts.why}.{known}", bad=True)


def _not_ready(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    if facts.found and facts.failed_since is None and not facts.found.ready:
        yield Problem("This gateway doesn't serve: its /readyz says why.", bad=True)


def _missing(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    for log, why in facts.missing.items():
        yield Problem(f"The log {log} has no gateway that answers: {why}.", bad=True)


def _standby(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    for one in facts.neighbours:
        if not one.state:
            text = f"The standby at {one.address} doesn't answer: it would not take over."
            yield Problem(text, bad=False)


def _journal(facts: Facts, limits: Thresholds) -> Iterable[Problem]:
    found = facts.found
    if found is None:
        return
    if found.journal_full:
        yield Problem("The disk takes nothing more: publishers wait.", bad=True)
    elif found.journal >= limits.journal_part:
        yield Problem(
            f"The journal is {share(found.journal)} full, as commits fall behind; then publishers "
            "wait.",
            bad=True,
        )


def _lag(facts: Facts, limits: Thresholds) -> Iterable[Problem]:
    lag = facts.found.commit_lag_ms if facts.found else None
    if lag is not None and lag >= limits.commit_lag_seconds * 1_000:
        yield Problem(f"Messages reach the table {age(lag / 1_000)} after they were accepted.")


def _stall(facts: Facts, limits: Thresholds) -> Iterable[Problem]:
    stall = facts.found.stall_ms if facts.found else None
    if stall is not None and stall >= limits.loop_stall_ms:
        yield Problem(f"The gateway's loop stood still for up to {number(stall)} ms just now.")


def _bugs(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    if facts.found and facts.found.internal_errors:
        count = facts.found.internal_errors
        yield Problem(
            f"Bugs that ended a peer each since the start: {number(count)}; the log has them as "
            "connection.bug.",
            bad=True,
        )


def _unreadable(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    count = facts.found.unreadable if facts.found else 0
    if count:
        text = f"Subscriptions that wait for a page that can't be read: {number(count)}."
        yield Problem(text, _list("is:unreadable"), "Show them", bad=True)


def _dead_letters(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    yield from _of_subscriptions(
        facts,
        lambda one: one.dead_lettered > 0,
        lambda one: f"{one.name} gives messages up: {number(one.dead_lettered)} just now.",
        "subscriptions give messages up",
        "",
    )


def _misfits(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    if facts.found and facts.found.misfits:
        count = number(facts.found.misfits)
        yield Problem(f"Messages just now that their topics' schemas don't allow: {count}.")


def _idle(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    yield from _of_subscriptions(
        facts,
        lambda one: one.backlog > 0 and not one.consumers and one.name not in facts.paused,
        lambda one: f"{one.name} has {messages(one.backlog)} and no consumer.",
        "subscriptions have messages and no consumer",
        "is:idle",
    )


def _paused(facts: Facts, _limits: Thresholds) -> Iterable[Problem]:
    yield from _of_subscriptions(
        facts,
        lambda one: one.backlog > 0 and one.name in facts.paused,
        lambda one: f"{one.name} is paused, and {messages(one.backlog)} wait.",
        "paused subscriptions have messages",
        "is:paused",
    )


def _old(facts: Facts, limits: Thresholds) -> Iterable[Problem]:
    yield from _of_subscriptions(
        facts,
        lambda one: (
            bool(one.consumers)
            and one.name not in facts.paused
            and one.oldest_seconds > limits.backlog_age_seconds
        ),
        lambda one: f"{one.name} has a message that waits for {age(one.oldest_seconds)}.",
        "subscriptions have old messages",
        "",
    )


def _of_subscriptions(
    facts: Facts,
    wrong: Callable[[SubscriptionNow], bool],
    sentence: Callable[[SubscriptionNow], str],
    together: str,
    search: str,
) -> Iterable[Problem]:
    if facts.found is None:
        return
    found = [one for one in facts.found.subscriptions if one.name in facts.visible and wrong(one)]
    if len(found) > NAMED_MAX:
        yield Problem(f"{number(len(found))} {together}.", _list(search), "Show them")
        return
    for one in sorted(found, key=lambda one: -one.backlog):
        path = f"/subscription?{urlencode({'id': one.name})}"
        yield Problem(sentence(one), path, "Look")


def _list(search: str) -> str:
    wanted = {"search": search} if search else {"sort": "backlog", "down": "1"}
    return f"/subscriptions?{urlencode(wanted)}"


RULES: Final[tuple[Rule, ...]] = (
    _unreachable,
    _not_ready,
    _missing,
    _journal,
    _unreadable,
    _bugs,
    _dead_letters,
    _misfits,
    _lag,
    _stall,
    _standby,
    _idle,
    _paused,
    _old,
)
