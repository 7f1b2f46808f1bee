"""The manifest of a lake's backup: each log that the last backup has is in the next one."""

import pytest

from distributary.pipeline.backup.backup_manifest import BackupPoint
from distributary.pipeline.backup.lake_manifest import LakeManifest
from distributary.pipeline.errors import StoreError
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.log.log_identity import LogIdentity

POINT = BackupPoint(1_700_000_000.5, LogIdentity("id", 7, "00ff"), 12, 340)
LOGS = ("main", "new", "orders")
LAST = LakeManifest(Placement(1, LOGS), "a" * 64, {"main": POINT, "orders": POINT})


@pytest.mark.parametrize("served", [{"main", "orders"}, {"main", "new", "orders"}])
def test_logs_that_are_there_or_new_are_copied(served: set[str]) -> None:
    LAST.require_present(served, "/lake")


@pytest.mark.parametrize(
    ("served", "place", "log"),
    [
        ({"main"}, "/lake/logs/orders", "orders"),
        ({"main", "new"}, "/lake/logs/orders", "orders"),
        ({"orders"}, "/lake", "main"),
    ],
)
def test_a_log_that_is_gone_is_named(served: set[str], place: str, log: str) -> None:
    with pytest.raises(StoreError, match=f"^{place} has no files.* has the log {log}:"):
        LAST.require_present(served, "/lake")
