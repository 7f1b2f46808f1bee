"""The owner's reader of the table's log agrees with deltalake, and refuses incomplete logs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field, Schema
from table_groups import DAY_US
from table_story import Story

from distributary.pipeline import topic_log_columns
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta import table_log
from distributary.pipeline.tables.delta.pinned_table import head_of, state_of
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.delta.table_state import TableState
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import table_upkeep, tiers

#: A gateway's imports and an empty home, opened; then what is loaded of the libraries for rows.
EMPTY_HOME = """
import sys
from pathlib import Path
from distributary.ingest.runtime import memory
memory.set_up()
import distributary.ingest.gateway.serve
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
log = TopicLog.open(Path(sys.argv[1]))
print(*sorted({"pyarrow", "deltalake"} & sys.modules.keys()))
log.prepare()
print(*sorted({"pyarrow", "deltalake"} & sys.modules.keys()))
"""


def same(log: TopicLog) -> None:
    """Both readers, and the state that was never read."""
    store = LocalStore(log.path)
    ours, theirs = TableState.of(table_log.read(store)), state_of(DeltaTable(log.path))
    assert ours == theirs
    assert (ours.version, ours.group, ours.sequence) == (
        log.version,
        log.journal_version,
        log.sequence_version,
    )
    assert {file.path for file in ours.files} == {file.path for file in log.state.files}
    head, told = table_log.read(store).head, head_of(DeltaTable(log.path))
    assert (head.reader_version, head.writer_version) == (told.reader_version, told.writer_version)
    for key in ("id", "schemaString", "partitionColumns", "createdTime"):
        assert head.metadata[key] == told.metadata[key], key
    assert dict(head.metadata["configuration"]) == told.metadata["configuration"]


def test_it_says_what_deltalake_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a new table, of commits, merges, checkpoints, and of entries that were cleaned up."""
    monkeypatch.setattr(tiers, "FAN_IN", 3)
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 4)
    story = Story(tmp_path / "log")
    same(story.log)
    for nth in range(12):
        story.now += DAY_US // 3
        story.commit(3, nth % 2, 1)
        same(story.log)
        story.upkeep()
        same(story.log)
    folder = tmp_path / "log" / "_delta_log"
    newest = max(folder.glob("*.checkpoint.parquet")).name.split(".")[0]
    for entry in folder.glob("*.json"):
        if entry.name.split(".")[0] <= newest:
            entry.unlink()
    same(story.log)
    same(TopicLog.open(tmp_path / "log", create=False))


def test_a_log_that_lacks_an_entry_is_refused(tmp_path: Path) -> None:
    """The content of the missing entry is unknown."""
    story = Story(tmp_path / "log")
    for _ in range(3):
        story.commit(1)
    (tmp_path / "log" / "_delta_log" / f"{2:020d}.json").unlink()
    with pytest.raises(StoreError, match="lacks the entry"):
        table_log.read(LocalStore(tmp_path / "log"))


@pytest.mark.parametrize("text", [b"{", b'{"add":{}}\n', b"\xff", b"[]\n7\n"])
def test_an_entry_that_is_none_is_refused(tmp_path: Path, text: bytes) -> None:
    """With one error, and not what a decoder raises."""
    Story(tmp_path / "log")
    (tmp_path / "log" / "_delta_log" / f"{1:020d}.json").write_bytes(text)
    with pytest.raises(StoreError, match="can't be opened as a Delta table"):
        table_log.read(LocalStore(tmp_path / "log"))


def test_a_checkpoint_that_is_none_is_refused(tmp_path: Path) -> None:
    Story(tmp_path / "log")
    (tmp_path / "log" / table_log.checkpoint_name(0)).write_bytes(b"PAR1")
    with pytest.raises(StoreError, match="can't be opened as a Delta table"):
        table_log.read(LocalStore(tmp_path / "log"))


def test_a_table_of_another_protocol_is_refused(tmp_path: Path) -> None:
    """The error tells the table's versions and ours."""
    Story(tmp_path / "log")
    newer = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
    path = tmp_path / "log" / "_delta_log" / f"{1:020d}.json"
    path.write_text(json.dumps(newer) + "\n")
    with pytest.raises(StoreError, match="needs reader 3 and writer 7"):
        table_log.read(LocalStore(tmp_path / "log"))


def test_the_schemas_text_is_that_of_the_columns() -> None:
    """As deltalake writes it, of today's format and of all former ones."""
    schemas = (*topic_log_schema.FORMER_SCHEMAS, topic_log_schema.SCHEMA)
    for names, schema in zip(topic_log_columns.FORMATS, schemas, strict=True):
        assert topic_log_columns.schema_text(names) == Schema.from_arrow(schema).to_json()


def test_a_column_more_is_named(tmp_path: Path) -> None:
    Story(tmp_path / "log")
    DeltaTable(tmp_path / "log").alter.add_columns([Field("more", "string", nullable=True)])
    with pytest.raises(StoreError, match="look at more"):
        table_log.read(LocalStore(tmp_path / "log"))


def test_a_home_without_rows_needs_no_library_for_them(tmp_path: Path) -> None:
    """Neither a gateway's imports nor its opening of an empty home load Arrow or deltalake; what
    works on rows loads Arrow alone."""
    command = [sys.executable, "-c", EMPTY_HOME, str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "pyarrow"]
