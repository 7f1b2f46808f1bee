"""The backup of a lake: a folder with the backup of each log under its name, `lake.json` and
`lake.secret` beside them.

Each log is copied as of a moment of its own: nothing that is promised spans logs. A log that no
gateway has served yet has nothing to copy, and no backup.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from distributary.ingest.backup.backup_folder import MANIFEST
from distributary.ingest.backup.home_reader import HomeReader
from distributary.pipeline.backup import backup_plan
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.lake.placement_text import read_placement
from distributary.pipeline.log_names import MAIN, PLACEMENT, log_below
from distributary.pipeline.tables.home.home import make_folder
from distributary.pipeline.tables.lake.disk_lake import write_whole
from distributary.pipeline.tables.lake.lake import SECRET, Lake, read_secret

_SECRET_MODE: Final = 0o600
_MODE: Final = 0o644


class LakeFiles(msgspec.Struct, frozen=True):
    """What of a lake isn't in a log."""

    placement: Placement
    secret: str

    def write(self, folder: Path) -> None:
        """Put them into a folder, the secret first. Raises OSError."""
        write_whole(folder / SECRET, self.secret.encode(), _SECRET_MODE)
        write_whole(folder / PLACEMENT, msgspec.json.encode(self.placement), _MODE)


class LoggedFolder(msgspec.Struct, frozen=True):
    """A log, the address of its home, and the folder of its backup."""

    log: str
    home: str
    folder: Path


def of_lake(
    lake: Lake, folder: Path, reader: Callable[[str], HomeReader]
) -> tuple[LakeFiles, list[LoggedFolder]]:
    """What a backup to this folder copies: first each log, then the files, which make it whole.
    `reader` gives that of a home. Raises InvalidRequest for a folder with something else in it,
    StoreError."""
    files = LakeFiles(lake.placement(), lake.secret())
    make_folder(folder, "the folder of a backup")
    if (folder / MANIFEST).exists():
        raise InvalidRequest(f"{folder} has the backup of a home with one log. Name another folder")
    found = _folders(files.placement, lake.address, folder)
    served = [one for one in found if backup_plan.LAST_TABLE in reader(one.home).table_names()]
    if not served:
        raise InvalidRequest(f"{lake.address} has nothing to copy: no log was ever served")
    return files, served


def in_folder(
    folder: Path, root: str, there: Lake | None
) -> tuple[LakeFiles, list[LoggedFolder]] | None:
    """What a restore makes of this folder at `root`: on a disk first the files, then each log,
    `main` last. A gateway that finds less begins an empty log, and none takes what is another
    log's. None for the backup of one log. Raises StoreError, OSError, InvalidRequest when there is
    another lake at `root`."""
    path, secret = folder / PLACEMENT, folder / SECRET
    if not path.exists():
        return None
    placement = read_placement(path.read_bytes(), str(path))
    files = LakeFiles(placement, read_secret(secret.read_bytes(), str(secret)))
    if there is not None and there.placement() != placement:
        raise InvalidRequest(f"{root} is another lake: nothing is overwritten. Name another home")
    found = _folders(placement, root, folder)
    return files, [one for one in found if one.folder.is_dir()]


def _folders(placement: Placement, root: str, folder: Path) -> list[LoggedFolder]:
    logs = sorted(placement.logs, key=lambda log: log == MAIN)
    return [LoggedFolder(log, log_below(root, log), folder / log) for log in logs]
