"""The members of a lake that live, from a reader's view."""

from msgspec.structs import replace

from distributary.pipeline.fleet.members import SILENT_PERIODS, Member, Sightings

ONE = Member(1, "a", "amqp://10.0.0.1:5672", 11, log="main", period_ms=1_000)
TWO = Member(2, "b", "amqps://[fd00::2]:5671", 22, waits=("main",), period_ms=1_000)


def test_one_that_says_nothing_new_is_no_more() -> None:
    """By the reader's clock; a member that was never seen before may live."""
    sightings = Sightings()
    assert sightings.look([TWO, ONE], 0.0, 0.0) == ([ONE, TWO], [])
    assert sightings.look([ONE, replace(TWO, beat=1)], SILENT_PERIODS, SILENT_PERIODS) == (
        [ONE, replace(TWO, beat=1)],
        [],
    )
    late = SILENT_PERIODS + 0.1
    assert sightings.look([ONE, replace(TWO, beat=1)], late, late) == ([replace(TWO, beat=1)], [1])
    assert sightings.look([replace(ONE, beat=1)], late, late) == ([replace(ONE, beat=1)], [])
    assert sightings.look([replace(ONE, beat=1), TWO], 2 * late, 2 * late)[0] == [TWO]


def test_a_reader_that_is_paused_amid_its_read_takes_no_member_for_dead() -> None:
    """The members reported meanwhile; a report that it reads then counts from when it was read."""
    sightings = Sightings()
    sightings.look([ONE, TWO], 0.0, 0.0)
    paused_until = 10.0 * SILENT_PERIODS
    new = replace(TWO, beat=1)
    assert sightings.look([ONE, new], 1.0, paused_until) == ([ONE, new], [])
    assert sightings.look([new], paused_until + 1, paused_until + 1) == ([new], [])


def test_a_member_is_called_by_its_machine_or_its_address() -> None:
    assert ONE.is_called("a")
    assert ONE.is_called("10.0.0.1:5672")
    assert TWO.is_called("amqps://[fd00::2]:5671")
    assert not ONE.is_called("10.0.0.1")
    assert not ONE.is_called("")
