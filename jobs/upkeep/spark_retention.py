"""Retention of Spark's tables: whole days go, the oldest first, never needed ones.

`messages` loses a day when it is old enough, all of it lies below the floor of every subscription,
and topic_log has no message of it any more: so no rewind can make it owed again.
`acks` loses a day when it is old enough and `messages` has neither that day nor an earlier one: an
ack never goes before its message, or the message would look lost.
The day with the highest group stays in both: it shows the table's last group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from distributary.jobs.session.job_settings import UpkeepSettings
from distributary.jobs.tables.table_files import Day


@dataclass(frozen=True, slots=True)
class Removal:
    """The days that go, and the first one that stays."""

    days: tuple[Day, ...]
    first_kept: date


def of_messages(
    days: Sequence[Day],
    settings: UpkeepSettings,
    today: date,
    *,
    floor: int | None,
    logged: date | None,
) -> Removal | None:
    """Return the removal of `messages`' days. `floor`: the lowest of all subscriptions, None when
    there are none; `logged`: the first day of topic_log's messages, None when it has none."""
    if not settings.messages_days:
        return None
    before = today - timedelta(days=settings.messages_days)
    return _removal(days, min(before, logged or before), floor)


def of_acks(
    days: Sequence[Day], settings: UpkeepSettings, today: date, *, messages_from: date | None
) -> Removal | None:
    """Return the removal of `acks`' days. `messages_from`: the first day that `messages` keeps,
    None when it has none."""
    if not settings.acks_days or messages_from is None:
        return None
    before = today - timedelta(days=settings.acks_days)
    return _removal(days, min(before, messages_from), None)


def _removal(days: Sequence[Day], before: date, floor: int | None) -> Removal | None:
    newest = max((day.last_group for day in days if day.last_group is not None), default=None)
    gone: list[Day] = []
    for day in days:
        if day.day is None:
            return None
        stays = (
            day.day >= before
            or day.last_group is None
            or day.last_group == newest
            or (floor is not None and (day.last_sequence is None or day.last_sequence >= floor))
        )
        if stays:
            return Removal(tuple(gone), day.day) if gone else None
        gone.append(day)
    return None
