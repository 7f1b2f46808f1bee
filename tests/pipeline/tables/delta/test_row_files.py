"""Data files of Spark's tables, as Arrow writes them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.pipeline.tables.delta.row_files import ROW_GROUP_ROWS, RowFiles, RowsLayout

COUNT = 3_000


def test_a_dictionary_is_for_what_repeats(tmp_path: Path) -> None:
    """The first rows of a file decide which columns get a dictionary. All rows and all statistics
    are there in either case."""
    rows = pa.record_batch(
        {
            "id": [f"o-{nth}" for nth in range(COUNT)],
            "seldom": pa.array([nth % 1_000 or None for nth in range(COUNT)], pa.int64()),
            "currency": [("EUR", "USD", None)[nth % 3] for nth in range(COUNT)],
            "nothing": pa.nulls(COUNT, pa.string()),
            "named": [f"n-{nth}" for nth in range(COUNT)],
            "deep": [{"one": nth, "many": [nth]} for nth in range(COUNT)],
            "sequence": pa.array(range(COUNT), pa.int64()),
        }
    )
    bounded, plain = ("seldom", "sequence"), frozenset({"named", "sequence"})
    files = RowFiles(RowsLayout(str(tmp_path), rows.schema, None, bounded, plain))
    for _ in range(ROW_GROUP_ROWS // COUNT + 2):  # a second row group
        files.add(rows)
    (written,) = files.close()
    (path,) = tmp_path.glob("*.parquet")
    with pq.ParquetFile(path) as file:
        assert file.num_row_groups == 2
        assert file.read().slice(COUNT, COUNT).to_pylist() == rows.to_pylist()
        group = file.metadata.row_group(1)
        columns = [group.column(nth) for nth in range(group.num_columns)]
    coded = {
        one.path_in_schema for one in columns if any("DICTIONARY" in how for how in one.encodings)
    }
    counted = {one.path_in_schema for one in columns if one.is_stats_set}
    assert coded == {"currency", "nothing", "deep.one", "deep.many.list.element"}
    assert counted == {"id", "seldom", "currency", "nothing", "sequence", "deep.one"}
    assert written.rows == (ROW_GROUP_ROWS // COUNT + 2) * COUNT
