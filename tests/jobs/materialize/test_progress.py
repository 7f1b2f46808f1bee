"""Reports of a streaming job on its batches, as lines and as gauges."""

from pathlib import Path
from urllib.request import urlopen

import pytest
from pyspark.sql import SparkSession

from distributary.jobs.materialize.progress import BatchProgress, Gauges, Noted, Watch
from distributary.pipeline.errors import InvalidRequest

PORT = 19_487


def test_a_batch_is_told_with_what_spark_and_the_job_know(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Times are Spark's, rows, facts and steps the job's own; a batch that the job didn't
    speak of isn't told, nor are other queries' batches."""
    told: list[BatchProgress] = []
    watch = Watch(told.append)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()

    def write(rows: object, number: int) -> None:
        for name in ("watched", "other"):
            watch.note(name, number, Noted(12, {"versions_behind": 3}, {"messages": 0.5}))
        assert rows.count() == 7  # type: ignore[attr-defined]

    spark.streams.addListener(watch)
    try:
        query = (
            source.writeStream.queryName("watched")
            .option("checkpointLocation", str(tmp_path))
            .foreachBatch(write)
            .trigger(processingTime="0 seconds")
            .start()
        )
        while not query.recentProgress:
            query.awaitTermination(1)
        query.stop()
        watch.wait()
    finally:
        spark.streams.removeListener(watch)
    assert {one.query for one in told} == {"watched"}
    first = told[0]
    assert (first.batch, first.rows, first.facts) == (0, 12, {"versions_behind": 3})
    assert first.steps["messages"] == 0.5
    assert first.steps["addBatch"] > 0
    assert first.seconds >= first.steps["addBatch"]


def test_gauges_are_served() -> None:
    """The last batch's numbers, by query and step."""
    gauges = Gauges()
    gauges.serve(f"127.0.0.1:{PORT}")
    for behind in (9, 2):
        gauges.tell(
            BatchProgress("q", 1, 10, 0.5, 20.0, {"acks": 0.25}, {"versions_behind": behind})
        )
    with urlopen(f"http://127.0.0.1:{PORT}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    assert 'distributary_job_versions_behind{query="q"} 2.0' in lines
    assert 'distributary_job_rows_per_second{query="q"} 20.0' in lines
    assert 'distributary_job_step_seconds{query="q",step="acks"} 0.25' in lines


@pytest.mark.parametrize("place", ["here", "127.0.0.1:x", "127.0.0.1:99999999"])
def test_a_wrong_place_for_gauges_is_said(place: str) -> None:
    """In a sentence with the place in it."""
    with pytest.raises(InvalidRequest, match=place):
        Gauges().serve(place)
