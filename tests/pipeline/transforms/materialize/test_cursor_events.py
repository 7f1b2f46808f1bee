"""Effects of events on cursors, before any settlement is read."""

from pyspark.sql import Row

from distributary.pipeline.transforms.materialize.cursors import Cursor, begin


def event(group: int, what: str, *, shared: bool) -> Row:
    return Row(
        subscription="container/c/s",
        group=group,
        event=what,
        topic="t",
        shared=shared,
        selector=None,
        floor=7,
    )


def test_a_subscription_that_becomes_shared_keeps_its_cursor() -> None:
    """Its floor and what is settled stay; an older event changes nothing, nor one of a
    subscription that isn't there."""
    before = {"container/c/s": Cursor("container/c/s", "t", False, None, floor=20, group=5)}
    after = begin(before, [event(6, "configured", shared=True)])
    assert after["container/c/s"] == Cursor("container/c/s", "t", True, None, floor=20, group=5)
    assert begin(before, [event(5, "configured", shared=True)]) == before
    assert begin({}, [event(6, "configured", shared=True)]) == {}


def test_the_last_event_says_whether_it_is_shared() -> None:
    """Events may stand in any order in the table."""
    events = [event(9, "configured", shared=False), event(3, "created", shared=False)]
    events.insert(0, event(4, "configured", shared=True))
    assert not begin({}, events)["container/c/s"].shared
    assert begin({}, events[:1] + events[2:])["container/c/s"].shared


def test_a_pause_and_a_schema_begin_nothing() -> None:
    """The cursor of a subscription that is paused stays where it is."""
    before = {"container/c/s": Cursor("container/c/s", "t", False, None, floor=20, group=5)}
    for what in ("paused", "resumed", "schema"):
        assert begin(before, [event(6, what, shared=False)]) == before
        assert begin({}, [event(6, what, shared=False)]) == {}
