"""Spark's cursors and the fold of `distributary verify` are two programs that say the same."""

from spark_place import Place
from test_history import History

from distributary.pipeline.tables.verify.check import Verdict
from distributary.pipeline.tables.verify.verify_home import verify


def test_verify_finds_the_cursors_of_a_random_history_right(place: Place) -> None:
    """As of the group that they are of, also when the log has gone on since."""
    history = History(place, seed=11)
    history.live(groups=40)
    place.materialize()
    assert verdict(place) is Verdict.SOUND
    history.live(groups=30)
    assert verdict(place) is Verdict.SOUND


def verdict(place: Place) -> Verdict:
    """The verdict on the cursors in a home, which must be sound."""
    report = verify(place.home)
    assert report.sound, report
    [check] = [check for check in report.checks if check.name == "cursors"]
    return check.verdict
