"""Parquet files read in batches of about as many values, whatever their row groups contain."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

#: Sequences in one batch, about: some 40 bytes each until they are in the bitmaps.
VALUES_MAX: Final = 1 << 20


def tables(files: Iterable[pq.ParquetFile], columns: list[str]) -> Iterator[pa.Table]:
    """Read these columns of the files, in tables of at most about VALUES_MAX sequences."""
    for opened in files:
        with opened as file:
            for nth in range(file.num_row_groups):
                batches = file.iter_batches(
                    _batch_rows(file.metadata.row_group(nth)),
                    row_groups=[nth],
                    columns=columns,
                    use_threads=False,
                )
                for batch in batches:
                    yield pa.Table.from_batches([batch])


def _batch_rows(group: pq.RowGroupMetaData) -> int:
    """Return how many rows of the row group have about VALUES_MAX values in any column."""
    values = max(group.column(nth).num_values for nth in range(group.num_columns))
    return max(1, group.num_rows * VALUES_MAX // max(values, 1))
