"""Where everything that a gateway keeps lies, and who owns it.

One home belongs to one process at a time. Whoever writes anything under it holds its lock.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import HomeLocked

#: Long enough for any process id and a line end.
PID_BYTES_MAX = 32


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one gateway, by name of what lies in it. It makes no folder by itself."""

    root: Path

    @property
    def lock_path(self) -> Path:
        return self.root / "lock"

    @property
    def journal_dir(self) -> Path:
        return self.root / "journal"

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

    def checkpoint(self, name: str) -> Path:
        """Where the Spark query `name` keeps its checkpoint."""
        return self.root / "checkpoints" / name


@contextmanager
def lock(home: Home) -> Iterator[None]:
    """Own the home while the block runs; the folder is made when it is absent.

    Raises HomeLocked at once when another process owns it. The lock goes with the process, so a
    kill leaves nothing to clean up; the file itself stays, with the last owner's pid in it.
    """
    home.root.mkdir(parents=True, exist_ok=True)
    fd = os.open(home.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _own(fd, home)
        yield
    finally:
        os.close(fd)


def _own(fd: int, home: Home) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(fd, PID_BYTES_MAX, 0).decode("ascii", "replace").strip() or "unknown"
        raise HomeLocked(
            f"{home.root} is in use by the gateway with pid {owner}; "
            "stop it first, or choose another home"
        ) from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
