"""A table that isn't ours alone, read by its files: what of it would be read wrong is refused."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta.pinned_table import pin, row_counts
from distributary.pipeline.tables.delta.store import LocalStore, Store


@pytest.mark.parametrize("read", [pin, row_counts])
@pytest.mark.parametrize("feature", [TableFeatures.DeletionVectors, TableFeatures.ColumnMapping])
def test_a_table_whose_rows_are_not_those_of_its_files_is_refused(
    tmp_path: Path, feature: TableFeatures, read: Callable[[Store], object]
) -> None:
    """Another program altered it: its files may have deleted rows, and columns of other names."""
    write_deltalake(tmp_path, pa.table({"sequence": [1, 2]}))
    assert read(LocalStore(tmp_path))
    DeltaTable(tmp_path).alter.add_feature(feature, allow_protocol_versions_increase=True)
    with pytest.raises(StoreError, match=r"needs reader 3 of the Delta protocol.*altered"):
        read(LocalStore(tmp_path))
