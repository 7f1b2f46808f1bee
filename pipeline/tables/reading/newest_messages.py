"""The newest messages of some topics, read from a log's files."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.store import Store


class LoggedMessage(NamedTuple):
    """A message of the log, with its bytes as they were published."""

    sequence: int
    topic: str
    message: bytes


def newest_messages(
    store: Store, files: Sequence[AddedFile], wanted: Callable[[str], bool], count: int
) -> Iterator[LoggedMessage]:
    """Return up to `count` messages of the topics that are `wanted`: the newest file first, and in
    a file the last message first. `files` are message files. Memory is one row group's."""
    for file in sorted(files, key=lambda file: file.high or 0, reverse=True):
        for found in _of_file(store, file.path, wanted):
            yield found
            count -= 1
            if not count:
                return


def _of_file(store: Store, path: str, wanted: Callable[[str], bool]) -> Iterator[LoggedMessage]:
    with store.parquet(path) as parquet:
        for nth in reversed(range(parquet.num_row_groups)):
            names = parquet.read_row_group(nth, columns=["topic"], use_threads=False)["topic"]
            some = [name for name in pc.unique(names).to_pylist() if wanted(str(name))]
            if not some:
                continue
            columns = ["sequence", "topic", "message"]
            rows = parquet.read_row_group(nth, columns=columns, use_threads=False)
            found = rows.filter(pc.is_in(rows["topic"], value_set=pa.array(some, pa.string())))
            for row in reversed(found.to_pylist()):
                sequence, topic, message = (row[name] for name in columns)
                yield LoggedMessage(
                    cast("int", sequence), cast("str", topic), cast("bytes", message)
                )
