"""The owner of a home: one process at a time; other processes can see whether it lives.

The file `lock` names the owner: its pid, its *epoch* (one higher with each owner) and its
*heartbeat*, a number that changes while it lives. The owner holds a flock on it.

1. The home belongs to the process whose file has the name `lock`. Each new owner renames a file of
   its own over the former one, so an owner knows by one `stat` whether it still owns the home.
2. An owner that died leaves a free flock, and the next one may take the home at once. An owner
   that is paused keeps its flock; a standby that sees no heartbeat for a whole lease takes over.
3. The lock changes only under a flock on `lock.takeover`, so one of many processes wins.
4. An owner that is about to give the home back says so in its file, if a standby waits: a standby
   holds a shared flock on `lock.standby`, and then looks at the lock often. The owner may name its
   heir there; the other standbys let the heir take the home first (`pipeline.fleet.heirs`).

The lock says which process may write. Other parts make it impossible for an owner that has lost the
home to do harm: the journal checks after each fsync, and the table's next version is made by an
exclusive link. On a shared disk this needs flock that all machines see, atomic renames, and a
`stat` that isn't answered from a cache (NFS: version 4, mounted with `noac` or `actimeo=0`).
"""

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Self

import msgspec

from distributary.pipeline.errors import HomeLocked, HomeLost
from distributary.pipeline.fleet.heirs import NOBODY, Patience
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal.segment import sync_directory

#: Seconds between two looks of a standby at the lock; and the same while its owner is leaving.
STANDBY_SECONDS = 0.1
LEAVING_SECONDS = 0.005
#: Looks after which a standby has surely seen that the owner is leaving, even on a busy machine.
_LOOKS = 2
#: The file is one line of this length, so that a heartbeat is one small write in place.
CLAIM_BYTES = 64


class Claim(msgspec.Struct, frozen=True):
    """The content of a lock file; all 0 when the file is empty or damaged. `leaving` is 1 when the
    home is about to be given back, `heir` the number of the standby that is to take it first."""

    pid: int = 0
    epoch: int = 0
    beat: int = 0
    leaving: int = 0
    heir: int = NOBODY

    @classmethod
    def read(cls, fd: int) -> Self:
        words = os.pread(fd, CLAIM_BYTES, 0).split()
        if not words or not all(word.isdigit() for word in words):
            return cls()
        return cls(*map(int, words[:5]))

    def write(self, fd: int) -> None:
        """Write the claim. Raises OSError, and ValueError for values that `read` can't return."""
        words = (self.pid, self.epoch, self.beat, self.leaving, self.heir)
        line = " ".join(map(str, words)).ljust(CLAIM_BYTES - 1) + "\n"
        if min(words) < 0 or len(line) != CLAIM_BYTES:
            raise ValueError(f"a lock file can't say {self}")
        os.pwrite(fd, line.encode(), 0)


class Owner:
    """The right to write under a home, as long as `check` raises nothing. `beats`: heartbeats in a
    lease; a few may be late before another process may take the home.

    `taken` says that the former owner may still live without knowing: this owner may write none of
    the files that the former one may have open. Threads: any; `release` on one only.
    """

    beats = 6

    def __init__(self, home: Home, fd: int, claim: Claim, *, taken: bool) -> None:
        self.home, self.epoch, self.taken = home, claim.epoch, taken
        self._fd, self._pid, self._path = fd, claim.pid, str(home.lock_path)
        found = os.fstat(fd)
        self._identity = (found.st_dev, found.st_ino)
        self._beats = count(1)
        #: Held while the file is used: after its close, another file may get its number.
        self._using = threading.Lock()
        self._leaving, self._heir = 0, NOBODY
        self._lost: str | None = None

    def beat(self) -> None:
        """Show that this owner lives. It writes into its own file, even if the home has another
        owner now. Raises OSError, also after `release`."""
        beat = next(self._beats)
        with self._using:
            Claim(self._pid, self.epoch, beat, self._leaving, self._heir).write(self._fd)

    def leave(self, heir: int = NOBODY) -> float:
        """Say that the home will be given back soon, and which standby is to take it first. Return
        the seconds after which a waiting standby has seen that; 0: none waits. Raises OSError."""
        fd = os.open(self.home.standby_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if _locked(fd):
                return 0.0
        finally:
            os.close(fd)
        self._leaving, self._heir = 1, heir
        self.beat()
        return _LOOKS * STANDBY_SECONDS

    def stay(self) -> None:
        """Say that the home won't be given back soon, after all. Raises OSError."""
        self._leaving, self._heir = 0, NOBODY
        self.beat()

    def check(self) -> None:
        """Raise HomeLost when the home has another owner; then all later calls raise it, too."""
        if self._lost is None:
            try:
                found = os.stat(self._path)  # noqa: PTH116 (after each fsync; a path costs 10 us)
            except OSError as error:
                self._lost = f"{self.home.lock_path} can't be read: {error.strerror}"
            else:
                if (found.st_dev, found.st_ino) == self._identity:
                    return
                self._lost = (
                    f"{self.home.root} has another owner now: this one gave no sign of life for "
                    "longer than owner.lease_ms. What it accepted is kept; it does nothing more"
                )
        raise HomeLost(self._lost)

    def release(self) -> None:
        """Give the home back; the file stays. A second call does nothing."""
        with self._using, suppress(OSError):
            fd, self._fd = self._fd, -1
            os.close(fd)


def acquire(home: Home) -> Owner:
    """Own the home now; the folder is made when it is absent. Raises HomeLocked when it has an
    owner; a killed owner's flock goes with its process. If the former owner named an heir, waits a
    while for that heir to take the home. Raises InvalidRequest where no home can be, and StoreError
    where the files can't be written."""
    home.make()
    patience = Patience(NOBODY)
    while (owner := _acquired(home, patience)) is None:
        time.sleep(STANDBY_SECONDS)
    return owner


def _acquired(home: Home, patience: Patience) -> Owner | None:
    """Return the new owner; None while the home waits for its heir. Raises as `acquire`."""
    with home.used(), _turn(home) as ours:
        fd = os.open(home.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            claim = Claim.read(fd)
            if not ours or not _locked(fd):
                raise HomeLocked(
                    f"{home.root} is in use by the gateway with pid {claim.pid or 'unknown'}; "
                    "stop it first, wait for it with --standby, or choose another home"
                )
            if not patience.may_take(claim.heir, free=True, now=time.monotonic()):
                return None
            return _succeed(home, claim, taken=False)
        finally:
            os.close(fd)


@contextmanager
def lock(home: Home) -> Iterator[Owner]:
    """Own the home while the block runs. Raises HomeLocked."""
    owner = acquire(home)
    try:
        yield owner
    finally:
        owner.release()


class Standby:
    """Waits for a home until `close`: call `attempt` repeatedly; it succeeds when the home's owner
    has died or gives no sign of life."""

    def __init__(self, home: Home, lease_seconds: float, me: int = NOBODY) -> None:
        """`me`: the number by which an owner may name this standby as its heir."""
        home.make()
        self._home, self._lease = home, lease_seconds
        self._me, self._patience = me, Patience(me)
        self._seen: tuple[int, Claim] | None = None
        self._since = 0.0  # when `_seen` was first seen
        with home.used():
            self._present = os.open(home.standby_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._present, fcntl.LOCK_SH)

    def close(self) -> None:
        """Stop waiting for the home. A second call does nothing."""
        fd, self._present = self._present, -1
        with suppress(OSError):
            os.close(fd)

    @property
    def leaving(self) -> bool:
        """Whether the owner said, at the last look, that it will give the home back to any standby
        or to this one."""
        claim = self._claim
        return bool(claim.leaving) and claim.heir in {NOBODY, self._me}

    @property
    def named(self) -> bool:
        """Whether the owner had named this standby as its heir at the last look."""
        return self._claim.heir == self._me != NOBODY

    @property
    def _claim(self) -> Claim:
        return self._seen[1] if self._seen is not None else Claim()

    @property
    def seconds(self) -> float:
        """Seconds between two attempts."""
        return LEAVING_SECONDS if self.leaving else STANDBY_SECONDS

    @property
    def owner_pid(self) -> int:
        """The owner's pid at the last look; 0 when it isn't known."""
        return self._claim.pid

    def attempt(self, clock: Callable[[], float]) -> Owner | None:
        """Take the home if it has no owner or its owner has shown no life for a lease, and if it
        waits for no other heir; `clock` gives monotonic seconds. Raises StoreError when the lock
        can't be read or written."""
        asked = clock()
        with self._home.used(), _turn(self._home) as ours:
            if not ours:
                return None  # another process is just taking it
            fd = os.open(self._home.lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                claim = Claim.read(fd)
                silent = self._silent((os.fstat(fd).st_ino, claim), asked, clock())
                free = _locked(fd) or silent
                if not self._patience.may_take(claim.heir, free=free, now=asked):
                    return None
                return _succeed(self._home, claim, taken=True)
            finally:
                os.close(fd)

    def _silent(self, seen: tuple[int, Claim], asked: float, read: float) -> bool:
        """Whether the owner's last change is a lease old. A change may have been written at any
        time until it was read: this process may be paused during a look while the owner lives."""
        if seen != self._seen:
            self._seen, self._since = seen, read
        return asked - self._since >= self._lease


@contextmanager
def _turn(home: Home) -> Iterator[bool]:
    """Yield whether this process may change the home's owner until the block's end."""
    fd = os.open(home.takeover_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield _locked(fd)
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _succeed(home: Home, former: Claim, *, taken: bool) -> Owner:
    """Replace the former lock file by one of our own, durably, while `_turn` is held."""
    new = home.lock_path.with_suffix(".new")
    new.unlink(missing_ok=True)
    claim = Claim(os.getpid(), former.epoch + 1)
    fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        claim.write(fd)
        os.fsync(fd)
        new.rename(home.lock_path)
        sync_directory(home.root)
    except BaseException:
        os.close(fd)
        raise
    return Owner(home, fd, claim, taken=taken)
