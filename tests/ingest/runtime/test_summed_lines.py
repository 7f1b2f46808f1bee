"""Events that may come often are logged at once, then summed up."""

from distributary.ingest.runtime.logs import QUIET_SECONDS, SummedLines


def test_each_kind_is_told_at_once_and_then_once_a_minute() -> None:
    """However often it comes; nothing is left out of the sum."""
    now = 0.0
    lines, told = SummedLines(lambda: now), []
    for tenth in range(10 * int(QUIET_SECONDS)):
        now = tenth / 10
        lines.add(("queue/a",), 3)
        told += lines.due()
    lines.add(("queue/b",), 1)
    told += lines.due()
    assert lines.waits
    now = QUIET_SECONDS
    told += lines.due() + lines.due()
    assert not lines.waits
    assert told == [
        (("queue/a",), 3),
        (("queue/b",), 1),
        (("queue/a",), 3 * (10 * int(QUIET_SECONDS) - 1)),
    ]
