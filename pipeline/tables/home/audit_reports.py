"""Reports of audits that are kept in a home: their writer and their readers use this module.

A report is a folder in `audits`, named by when its audit began; its `report.json` appears whole and
last. Violations lie beside it, a Delta table for each check that found some.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from distributary.pipeline.tables.home.home import Home

REPORT: Final = "report.json"
_NAME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """One report. `checks` are as `jobs audit --json` writes them; times are seconds since 1970."""

    name: str
    folder: Path
    began: float
    ended: float
    last_group: int
    first_sequence: int
    checks: tuple[Mapping[str, Any], ...]

    @property
    def violations(self) -> int:
        return sum(int(one["violations"]) for one in self.checks)


def folder_of(home: Home, began: datetime) -> Path:
    """Return the folder for the report of an audit that begins at `began` (UTC)."""
    return home.audits / began.strftime(_NAME)


def keep(folder: Path, said: Mapping[str, Any], kept: int) -> None:
    """Write the report, and remove the oldest ones until `kept` remain. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(said, default=str)
    temporary = folder / f".{REPORT}"
    temporary.write_text(text)
    temporary.rename(folder / REPORT)
    for old in _folders(folder.parent)[kept:]:
        shutil.rmtree(old, ignore_errors=True)


def reports(home: Home, most: int) -> tuple[AuditReport, ...]:
    """Return the last `most` reports, the newest first; incomplete ones are left out."""
    found = (read(folder) for folder in _folders(home.audits)[:most])
    return tuple(one for one in found if one is not None)


def read(folder: Path) -> AuditReport | None:
    """Read the report in a folder; None if it is absent or can't be read."""
    try:
        said = json.loads((folder / REPORT).read_text())
        checks: Sequence[Mapping[str, Any]] = said["checks"]
        return AuditReport(
            folder.name,
            folder,
            float(said["began"]),
            float(said["ended"]),
            int(said["last_group"]),
            int(said["first_sequence"]),
            tuple(checks),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folders(audits: Path) -> list[Path]:
    """Return the folders of reports, the newest first."""
    try:
        return sorted((one for one in audits.iterdir() if one.is_dir()), reverse=True)
    except FileNotFoundError:
        return []
