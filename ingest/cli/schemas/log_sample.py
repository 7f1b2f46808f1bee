"""The newest messages of a topic, or of the topics of a pattern, out of a home's log. Nothing is
locked and nothing written, so the gateway may run; what the last second brought isn't there yet.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.commit.table_location import table_store
from distributary.ingest.runtime import load_settings
from distributary.pipeline.schemas.schema_choice import pattern
from distributary.pipeline.tables.delta import topic_log_schema
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.topic_log.table_view import open_view


class Sampled(NamedTuple):
    """A message of the log."""

    sequence: int
    topic: str
    message: bytes


def newest(home: Path, config: Path | None, topic: str, count: int) -> Iterator[Sampled]:
    """Messages of these topics, so many at most, the newest file first. Raises StoreError."""
    at = Home(home)
    store = table_store(at, load_settings.load(config, flags={}))
    files = open_view(store).of(topic_log_schema.MESSAGE)
    matches = pattern(topic).matches_topic
    for file in sorted(files, key=lambda file: file.high or 0, reverse=True):
        for found in _of_file(store, file.path, matches):
            yield found
            count -= 1
            if not count:
                return


def _of_file(store: Store, path: str, matches: Callable[[str], bool]) -> Iterator[Sampled]:
    """The messages of one file, the last first."""
    with store.parquet(path) as parquet:
        for nth in reversed(range(parquet.num_row_groups)):
            names = parquet.read_row_group(nth, columns=["topic"], use_threads=False)["topic"]
            wanted = [one for one in pc.unique(names).to_pylist() if matches(str(one))]
            if not wanted:
                continue
            rows = parquet.read_row_group(
                nth, columns=["sequence", "topic", "message"], use_threads=False
            )
            some = rows.filter(pc.is_in(rows["topic"], value_set=pa.array(wanted, pa.string())))
            for row in reversed(cast("list[dict[str, object]]", some.to_pylist())):
                yield Sampled(
                    cast("int", row["sequence"]),
                    cast("str", row["topic"]),
                    cast("bytes", row["message"]),
                )
