"""Random sound lives: no check has a row, whatever happened, also where rows are gone."""

from datetime import UTC, datetime

from audit_life import Life
from deltalake import DeltaTable
from spark_place import Place

from distributary.jobs.views.audit_run import Settings, build, summary
from distributary.pipeline.transforms.past.state_as_of import REMOVED

#: The second day of the log.
DAY = "2026-11-22"
#: What sees it first if rows are missing.
OF_ROWS = ("torn", "gaps", "lost", "not_owed", "cursors_differ")


def test_a_sound_life_has_no_violations(place: Place) -> None:
    """Turns, selectors, priorities, releases, failures, dead letters, lost consumers, rewinds,
    kills and no-local, by the real dispatcher. Then retention takes the first day from the log and
    from Spark's tables, and the rest is still judged; as is what came since some time."""
    Life(place.log, seed=5).live(groups=160)
    place.materialize()
    tables = place.places.tables
    results = list(build(place.spark, Settings(tables)))
    assert summary(results) == "audit: 17 checks, nothing found", [r for r in results if r.findings]
    whole = {one.check.name: one.judged for one in results}
    # No topic has a schema here; `test_audit_faults` has some.
    assert all(count > 0 for name, count in whole.items() if name != "typed"), whole

    DeltaTable(place.home.topic_log).delete(f"record <> 'subscription' AND day < '{DAY}'")
    for name in ("messages", "acks"):
        table = DeltaTable(f"{tables}/{name}")
        table.delete(f"day < '{DAY}'")
        table.alter.set_table_properties({REMOVED: DAY}, raise_if_not_exists=False)
    for since in (None, datetime(2026, 11, 22, 0, 5, tzinfo=UTC)):
        results = list(build(place.spark, Settings(tables, names=OF_ROWS, since=since)))
        assert not any(one.findings for one in results), results
        judged = {one.check.name: one.judged for one in results}
        assert 0 < judged["gaps"] < whole["gaps"]
        assert 0 < judged["lost"] < whole["lost"]
