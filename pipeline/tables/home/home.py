"""The paths of a home, the files that a gateway keeps. Its owner is in
`pipeline.tables.home.owner`.

Only the owner of a home writes under it.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from distributary.pipeline.errors import InvalidRequest, StoreError

#: Errors of a path that can't be a folder, for any user.
_NO_FOLDER = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EINVAL, errno.ELOOP, errno.ENAMETOOLONG}
)
#: A store's address after it was parsed as a path: `s3://bucket` becomes `s3:/bucket`.
_ADDRESS = re.compile(r"([a-z][a-z0-9+]+):/+(.*)")


class Home(msgspec.Struct, frozen=True):
    """The folder of one gateway, and the paths in it by name. It makes no folder by itself.

    Its addresses are absolute, however `root` was typed: a gateway tells them to processes with
    other working folders.
    """

    root: Path

    def __post_init__(self) -> None:
        """Raises InvalidRequest for the address of a store."""
        if address := _ADDRESS.fullmatch(str(self.root)):
            raise InvalidRequest(
                f"{address[1]}://{address[2]} is the address of a store, and a folder is wanted "
                "here. `serve`, `verify`, `info` and Spark's jobs know homes without a disk"
            )
        msgspec.structs.force_setattr(self, "root", self.root.absolute())

    def make(self) -> None:
        """Make the folder if it is absent, as `make_folder` does."""
        make_folder(self.root, "a gateway's home")

    @contextmanager
    def used(self) -> Iterator[None]:
        """Turn an OSError of the block into a StoreError, one sentence."""
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"the home {self.root} can't be used: {_said(error, self.root)}. See to its files, "
                "their rights and the disk's room; nothing that was accepted is lost"
            ) from error

    @property
    def lock_path(self) -> Path:
        return self.root / "lock"

    @property
    def takeover_path(self) -> Path:
        """A process that replaces the file at `lock_path` holds a flock on this file meanwhile."""
        return self.root / "lock.takeover"

    @property
    def standby_path(self) -> Path:
        """A standby that waits for the home holds a shared flock on this file meanwhile."""
        return self.root / "lock.standby"

    @property
    def journal_dir(self) -> Path:
        return self.root / "journal"

    @property
    def marks(self) -> Path:
        """The last delivered sequence of each durable subscription
        (`pipeline.tables.recovery.dispatch_marks`)."""
        return self.root / "dispatch"

    @property
    def topic_log(self) -> Path:
        return self.root / "tables" / "topic_log"

    @property
    def cursors(self) -> Path:
        return self.root / "tables" / "cursors"

    @property
    def acks(self) -> Path:
        return self.root / "tables" / "acks"

    @property
    def messages(self) -> Path:
        return self.root / "tables" / "messages"

    @property
    def spark_tables(self) -> Path:
        """The folder of the tables that Spark writes, each by its name."""
        return self.root / "tables"

    @property
    def audits(self) -> Path:
        """Folder of kept audit reports (`pipeline.tables.home.audit_reports`)."""
        return self.root / "audits"

    def checkpoint(self, name: str) -> Path:
        """Folder of the Spark query `name`'s checkpoint."""
        return self.root / "checkpoints" / name


def make_folder(folder: Path, says: str) -> None:
    """Make a folder if it is absent; `says` is its purpose. Raises InvalidRequest where no folder
    can be, StoreError where rights or room are missing: each one sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"{folder} can't be {says}: {_said(error, folder)}"
        if error.errno in _NO_FOLDER:
            raise InvalidRequest(f"{text}. Name another folder") from error
        raise StoreError(f"{text}. See to its rights and its disk, or name another") from error


def _said(error: OSError, root: Path) -> str:
    """Return the system's reason, with the path unless it is the home itself."""
    why = error.strerror or str(error)
    path = error.filename
    return why if path is None or str(path) == str(root) else f"{path}: {why}"
