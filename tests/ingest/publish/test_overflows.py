"""What full backlogs drop is told at once, then summed up."""

from structlog.testing import capture_logs

from distributary.ingest.publish.overflows import QUIET_SECONDS, Overflows


def test_each_subscription_is_told_at_once_and_then_once_a_minute() -> None:
    """However often it drops; nothing is left out of the sum."""
    now = 0.0
    overflows = Overflows(lambda: now)
    with capture_logs() as told:
        for tenth in range(10 * int(QUIET_SECONDS)):
            now = tenth / 10
            overflows.add("queue/a", 3)
            overflows.tell()
        overflows.add("queue/b", 1)
        overflows.tell()
        now = QUIET_SECONDS
        overflows.tell()
        overflows.tell()
    assert [(one["subscription"], one["dropped"]) for one in told] == [
        ("queue/a", 3),
        ("queue/b", 1),
        ("queue/a", 3 * (10 * int(QUIET_SECONDS) - 1)),
    ]
    assert {one["log_level"] for one in told} == {"warning"}
