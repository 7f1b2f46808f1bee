"""Places in the log as users write them: a sequence, a time, a time ago, now."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest

#: The largest sequence, and the latest time in microseconds: both are signed 64-bit numbers.
PLACE_MAX = 2**63 - 1
_DIGITS_MAX = 19

_UNITS = {"ms": 1_000, "s": 10**6, "m": 60 * 10**6, "h": 3_600 * 10**6, "d": 86_400 * 10**6}
_AGO = re.compile(r"(\d{1,15}) ?(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True)
class AtSequence:
    """The place of the message with this sequence, whether it exists or not."""

    sequence: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The place of the first message published at or after this time (microseconds, UTC)."""

    time: int


@dataclass(frozen=True, slots=True)
class AtEnd:
    """The place behind all published messages."""


Place: TypeAlias = AtSequence | AtTime | AtEnd


def place(said: object, now: int) -> Place:
    """Parse a place: a number or digits are a sequence; other texts are `now`, an ISO 8601 time
    (UTC unless it has an offset) or a time ago (`250ms`, `90s`, `15m`, `2h`, `7d`).

    `now` is the time in microseconds. Raises InvalidRequest for anything else.
    """
    if isinstance(said, int) and not isinstance(said, bool) and 0 <= said <= PLACE_MAX:
        return AtSequence(said)
    if isinstance(said, str):
        text = said.strip()
        if text == "now":
            return AtEnd()
        if (
            text.isascii()
            and text.isdigit()
            and len(text) <= _DIGITS_MAX
            and int(text) <= PLACE_MAX
        ):
            return AtSequence(int(text))
        if found := _AGO.fullmatch(text):
            return AtTime(max(now - int(found[1]) * _UNITS[found[2]], 0))
        if (time := _iso(text)) is not None:
            return AtTime(time)
    raise InvalidRequest(
        f"{quoted(said)} is no place in the log; one is a sequence (1200), a time "
        "(2026-11-21T08:30:00Z), how long ago (90s, 15m, 2h, 7d), or now"
    )


def _iso(text: str) -> int | None:
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        since = time - datetime.fromtimestamp(0, UTC)
    except (ValueError, OverflowError):
        return None
    at = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    return at if at >= 0 else None
