"""Retention by days: files that can go, as their whole days are old and owed to no subscription.

Messages are removed from the first sequence on, without a gap. A day's settlements are removed when
none of their messages can be left, so that no settled message comes back. For the events of
subscriptions see `pipeline.tables.upkeep.event_retention`.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence

from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta.commits import AddedFile


def expired(files: Sequence[AddedFile], *, before: str, floor: int) -> tuple[AddedFile, ...]:
    """Return the files to remove in one commit: all files of their records' days.

    `before` is the first day to keep; no subscription is owed a message below the sequence `floor`.
    """
    messages = _days(files, topic_log_schema.MESSAGE)
    going = {day for day in messages if day < before and _below(messages[day], floor)}
    while late := _not_first(messages, going):
        going -= late
    kept = [f for day, same in messages.items() if day not in going for f in same]
    first = min((f.group_low or 0 for f in kept), default=None)
    settled = {
        day
        for day, same in _days(files, topic_log_schema.SETTLEMENT).items()
        if day < before and (first is None or _before_group(same, first))
    }
    days = {topic_log_schema.MESSAGE: going, topic_log_schema.SETTLEMENT: settled}
    return tuple(file for file in files if file.day in days.get(file.record, ()))


def _not_first(messages: dict[str, list[AddedFile]], going: Collection[str]) -> set[str]:
    """Return days that would leave a gap, as an earlier message is kept."""
    kept = [f.low or 0 for day, same in messages.items() if day not in going for f in same]
    first = min(kept, default=None)
    return set() if first is None else {d for d in going if not _below(messages[d], first)}


def _below(files: Sequence[AddedFile], sequence: int) -> bool:
    return all(f.high is not None and f.high < sequence for f in files)


def _before_group(files: Sequence[AddedFile], group: int) -> bool:
    return all(f.group_high is not None and f.group_high < group for f in files)


def _days(files: Sequence[AddedFile], record: str) -> dict[str, list[AddedFile]]:
    days: dict[str, list[AddedFile]] = defaultdict(list)
    for file in files:
        if file.record == record:
            days[file.day].append(file)
    return days
