"""The named points at which a gateway is killed, paused or told of an error.

Each is a moment between two system calls: before or after one call on one kind of file. The order
of the calls of a commit: data files are created, written and synced, then their folders; the
commit's JSON is written and synced under another name, linked to its own, and `_delta_log` synced.
"""

from faults import Where

_LOG = "tables/topic_log/_delta_log"
_DATA = "tables/topic_log/record=*/day=*/*.parquet"
_MERGED = "tables/topic_log/record=*/day=*/t[1-9]-*.parquet"
_COMMIT = f"{_LOG}/{'[0-9]' * 20}.json"
_COMMIT_DRAFT = f"{_LOG}/.*.json.tmp"
_CHECKPOINT = f"{_LOG}/[0-9]*.checkpoint*.parquet"
_CHECKPOINT_DRAFT = f"{_LOG}/.*checkpoint*.tmp"
_SEGMENT = "journal/*.journal"
_SPARE = "journal/*.spare"

#: Reached within a second or two of ordinary work.
POINTS: dict[str, Where] = {
    "before the journal is written": Where("write", _SEGMENT, "before"),
    "after the journal is written": Where("write", _SEGMENT, "after"),
    "before the journal is synced": Where("fdatasync", _SEGMENT, "before"),
    "after the journal is synced": Where("fdatasync", _SEGMENT, "after"),
    "before a segment has its name": Where("rename", _SEGMENT, "before"),
    "after a segment has its name": Where("rename", _SEGMENT, "after"),
    "after a segment's name is synced": Where("fsync", "journal", "after", ("rename", _SEGMENT)),
    "before a segment is given back": Where("rename", _SPARE, "before"),
    "after a segment is given back": Where("rename", _SPARE, "after"),
    "after a segment is begun in a spare file": Where("fdatasync", _SPARE, "after"),
    "before a data file is made": Where("create", _DATA, "before"),
    "after a data file is made": Where("create", _DATA, "after"),
    "before a data file is written": Where("write", _DATA, "before"),
    "after a data file is written": Where("write", _DATA, "after"),
    "before a data file is synced": Where("fsync", _DATA, "before"),
    "after a data file is synced": Where("fsync", _DATA, "after"),
    "after the draft of a commit is written": Where("write", _COMMIT_DRAFT, "after"),
    "after the draft of a commit is synced": Where("fsync", _COMMIT_DRAFT, "after"),
    "before a commit is linked": Where("link", _COMMIT, "before"),
    "after a commit is linked": Where("link", _COMMIT, "after"),
    "before a draft is unlinked": Where("unlink", _COMMIT_DRAFT, "before"),
    "before the commit's name is synced": Where("fsync", _LOG, "before", ("link", _COMMIT)),
    "after the commit's name is synced": Where("fsync", _LOG, "after", ("link", _COMMIT)),
}

#: Reached when enough commits have come together.
UPKEEP_POINTS: dict[str, Where] = {
    "before a checkpoint is written": Where("write", _CHECKPOINT_DRAFT, "before"),
    "after a checkpoint is synced": Where("fsync", _CHECKPOINT_DRAFT, "after"),
    "before a checkpoint has its name": Where("rename", _CHECKPOINT, "before"),
    "after a checkpoint has its name": Where("rename", _CHECKPOINT, "after"),
    "before the last checkpoint is named": Where("rename", f"{_LOG}/_last_checkpoint", "before"),
    "after the last checkpoint is named": Where("rename", f"{_LOG}/_last_checkpoint", "after"),
    "before merged files are written": Where("write", _MERGED, "before"),
    "after merged files are written": Where("write", _MERGED, "after"),
    "before merged files are synced": Where("fsync", _MERGED, "before"),
    "after merged files are synced": Where("fsync", _MERGED, "after"),
    "before the swap of merged files": Where("link", _COMMIT, "before", ("write", _MERGED)),
    "after the swap of merged files": Where("link", _COMMIT, "after", ("write", _MERGED)),
    "before the swap is synced": Where("fsync", _LOG, "before", ("write", _MERGED)),
    "before a data file is cleaned up": Where("unlink", _DATA, "before"),
    "after a data file is cleaned up": Where("unlink", _DATA, "after"),
    "before a log entry is cleaned up": Where("unlink", _COMMIT, "before"),
    "after a log entry is cleaned up": Where("unlink", _COMMIT, "after"),
}

ALL_POINTS = POINTS | UPKEEP_POINTS
#: Those of the way to the table, which is the only one without a journal.
TABLE_POINTS = tuple(name for name, at in POINTS.items() if not at.files.startswith("journal"))
JOURNAL_POINTS = tuple(name for name in POINTS if name not in TABLE_POINTS)

#: Syncs that may fail: what the gateway then believes to be on the disk may not be there.
SYNCS: dict[str, Where] = {
    "sync of the journal fails": Where("fdatasync", _SEGMENT, "before"),
    "sync of a new segment fails": Where("fdatasync", _SPARE, "before"),
    "sync of the journal's folder fails": Where("fsync", "journal", "before"),
    "sync of a returned segment's name fails": Where(
        "fsync", "journal", "before", ("rename", _SPARE)
    ),
    "sync of a data file fails": Where("fsync", _DATA, "before"),
    "sync of a commit's draft fails": Where("fsync", _COMMIT_DRAFT, "before"),
    "sync of the commit's name fails": Where("fsync", _LOG, "before", ("link", _COMMIT)),
    "sync of the marks fails": Where("fdatasync", "dispatch", "before"),
}

#: The same in upkeep, which comes seldom.
UPKEEP_SYNCS: dict[str, Where] = {
    "sync of a checkpoint fails": Where("fsync", _CHECKPOINT_DRAFT, "before"),
    "sync of merged files fails": Where("fsync", _MERGED, "before"),
    "sync of the swap fails": Where("fsync", _LOG, "before", ("write", _MERGED)),
}
ALL_SYNCS = SYNCS | UPKEEP_SYNCS
