"""Numbers, sizes, ages and moments as people read them."""

from datetime import UTC, datetime, timedelta
from typing import Final

#: Where there is no number.
NOTHING: Final = "\N{EN DASH}"
#: Times for which there is no date.
LATE: Final = "beyond the year 9999"
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_SIZES: Final = ("B", "KB", "MB", "GB", "TB")
_AGES: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def number(value: float | None) -> str:
    """1,234; 12.3 below a hundred where it isn't whole; a dash for nothing."""
    if value is None:
        return NOTHING
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:,.1f}"


def size(value: float | None) -> str:
    """Bytes: 0 B, 12.3 KB, 4.0 GB."""
    if value is None:
        return NOTHING
    for unit in _SIZES:
        if value < 1_000 or unit == _SIZES[-1]:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1_000
    raise AssertionError


def age(seconds: float | None) -> str:
    """How long: 12 s, 4 min, 3 h, 2 d."""
    if seconds is None:
        return NOTHING
    for length, unit in _AGES:
        if seconds >= length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def milliseconds(value: float | None) -> str:
    """At most so many; a dash while there is nothing to say."""
    return NOTHING if value is None else f"≤ {value:g} ms"


def moment(milliseconds_since_1970: float | None) -> str:
    """A time in UTC, to the second."""
    if milliseconds_since_1970 is None:
        return NOTHING
    at = _time(milliseconds_since_1970 * 1_000)
    return LATE if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def instant(microseconds: float | None) -> str:
    """A time in UTC, to the millisecond."""
    if microseconds is None:
        return NOTHING
    at = _time(microseconds // 1_000 * 1_000)
    return LATE if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1_000:03d} UTC"


def _time(microseconds: float) -> datetime | None:
    """None for a time beyond the calendar: messages may name one as their expiry."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def span(microseconds: float) -> str:
    """How long, with two digits or three: 3.2 ms, 41 s, 2 h."""
    if microseconds < 1_000:
        return f"{microseconds:.0f} µs"
    if microseconds < 1_000_000:
        return f"{number(round(microseconds / 1_000, 1))} ms"
    if microseconds < 100_000_000:
        return f"{number(round(microseconds / 1_000_000, 1))} s"
    return age(microseconds / 1_000_000)


def messages(count: int) -> str:
    """So many messages, as a part of a sentence."""
    return "1 message" if count == 1 else f"{count:,} messages"


def share(part: float) -> str:
    """A part of one as per cent."""
    return f"{part:.0%}"
