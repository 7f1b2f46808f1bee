"""The gateway starts from the cursors that Spark has written, as from the whole log."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_log import encoded
from spark_place import Place, first_part, second_part

from distributary.pipeline.tables.recovery import snapshot
from distributary.pipeline.tables.topic_log.topic_log import TopicLog


def standing(place: Place) -> tuple[str, list[object]]:
    """The cursors that the gateway reads, and the name of their source."""
    found = snapshot.load(TopicLog.open(place.home.topic_log))
    states = [(s.key, s.floor, list(s.settled.runs()), s.failures) for s in found.subscriptions]
    return found.source, states


def failing_part(place: Place) -> None:
    """Messages that failed once and twice; some were settled since, some are below the floor."""
    log = place.log
    log.next_group()
    for count in (0, 1):
        log.settle(
            "global/dispatchers", "flights", [2, 3], 2, outcome="modified", delivery_count=count
        )
    log.settle("global/dispatchers", "flights", [5, 7], 2, outcome="modified")
    log.next_group()
    log.settle("global/dispatchers", "flights", [7], 2, delivery_count=1)
    log.settle("global/dispatchers", "flights", [3, 8], 2, outcome="released", delivery_count=2)
    log.commit()


@pytest.fixture(scope="module")
def failed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Messages that failed, and one run of the job. To be copied."""
    made = Place(spark, tmp_path_factory.mktemp("failed"))
    first_part(made)
    failing_part(made)
    made.materialize()
    return made


@pytest.fixture
def place(failed: Place, tmp_path: Path) -> Place:
    """Such a home of the test's own."""
    return failed.copied(tmp_path)


def test_the_gateway_starts_from_these_cursors(place: Place) -> None:
    """The gateway reads from the table the same as from the whole log: also which messages failed,
    and as of which group."""
    cursors, away = place.home.cursors, place.home.root / "away"
    cursors.rename(away)
    whole, without = standing(place)
    away.rename(cursors)
    assert whole.startswith(snapshot.WHOLE_LOG)
    assert [failures for *_, failures in without][-1].keys() == {2, 3, 5, 8}
    source, found = standing(place)
    assert source.startswith("cursors")
    assert found == without
    second_part(place)
    place.materialize()
    source, found = standing(place)
    cursors.rename(away)
    assert source.startswith("cursors")
    assert found == standing(place)[1]
    assert [failures for *_, failures in found][-1].keys() == {8}


def test_a_table_of_before_is_folded_anew(place: Place) -> None:
    """A table `cursors` without failures is of no use to the gateway; the next batch of the job
    makes it whole from the log."""
    wanted = standing(place)
    path = place.places.table("cursors")
    old = place.spark.read.format("delta").load(path).drop("failures").localCheckpoint()
    old.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    assert standing(place)[0].startswith(snapshot.WHOLE_LOG)
    place.log.next_group()
    place.log.publish("flights", encoded("new"))
    place.log.commit()
    place.materialize()
    source, found = standing(place)
    assert source.startswith("cursors")
    assert found == wanted[1]
