"""The paths of a home: everything that a gateway keeps. Its owner is found in
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

#: What the system says when a path can't be a folder, whoever asks.
_NO_FOLDER = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EINVAL, errno.ELOOP, errno.ENAMETOOLONG}
)
#: What becomes of a store's address where a path is expected: `s3://bucket` is `s3:/bucket`.
_ADDRESS = re.compile(r"([a-z][a-z0-9+]+):/+(.*)")


class Home(msgspec.Struct, frozen=True):
    """The folder of one gateway, by name of what lies in it. It makes no folder by itself.

    Its addresses are absolute, however `root` was typed: what a gateway tells of them is used by
    processes with other working folders.
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
        """What the system says of the files meanwhile is a StoreError, one sentence."""
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
        """A process that changes what stands under `lock_path` holds a flock on this file
        meanwhile."""
        return self.root / "lock.takeover"

    @property
    def standby_path(self) -> Path:
        """Whoever waits for the home holds a shared flock on this file meanwhile."""
        return self.root / "lock.standby"

    @property
    def journal_dir(self) -> Path:
        return self.root / "journal"

    @property
    def marks(self) -> Path:
        """How far each durable subscription was delivered
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
        """Reports of audits that are kept (`pipeline.tables.home.audit_reports`)."""
        return self.root / "audits"

    def checkpoint(self, name: str) -> Path:
        """Where the Spark query `name` keeps its checkpoint."""
        return self.root / "checkpoints" / name


def make_folder(folder: Path, says: str) -> None:
    """Make a folder if it is absent; `says` is what it is for. Raises InvalidRequest where none can
    be, StoreError where it isn't allowed or there is no room: each one sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"{folder} can't be {says}: {_said(error, folder)}"
        if error.errno in _NO_FOLDER:
            raise InvalidRequest(f"{text}. Name another folder") from error
        raise StoreError(f"{text}. See to its rights and its disk, or name another") from error


def _said(error: OSError, root: Path) -> str:
    """What the system says, and of which path, if it isn't the home itself."""
    why = error.strerror or str(error)
    path = error.filename
    return why if path is None or str(path) == str(root) else f"{path}: {why}"
