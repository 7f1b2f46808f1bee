"""One process at a time writes Spark's tables of a folder.

Spark commits to a local disk by looking whether a version is there and then renaming: of two
writers both may believe that they made it. So a writer locks `.writer` in the folder of the tables,
a file that names it.

The JVM holds it, as the JVM writes: when Python is killed, its JVM may still end a commit, and the
lock goes with the JVM. It is a POSIX lock of the whole file (Java has no other), so it holds
between processes of one machine, and on a shared disk as far as that one has them. On an object
store `store_lock` does the same.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from distributary.jobs.tables.delta_files import java_class
from distributary.jobs.tables.folders import local
from distributary.jobs.tables.store_lock import leased, require_no_lease
from distributary.pipeline.errors import StoreError, TablesLocked

NAME = ".writer"

#: Seconds in which a JVM must end after its Python is gone; later it counts as a living writer.
ENDING_SECONDS_MAX = 15
#: Seconds between two attempts meanwhile.
ATTEMPT_SECONDS = 0.1


def require_no_writer(folder: str, lease_seconds: float) -> None:
    """Raise TablesLocked when a living process writes the tables, and StoreError when they can't be
    written: to know it before a JVM starts. `lease_seconds`: of tables on a store. No file is
    made."""
    path = _path(folder)
    if path is None:
        require_no_lease(folder, lease_seconds)
        return
    _require_writable(path)
    if not path.exists():
        return
    with path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            if _alive(path):
                raise _locked(folder, path) from None


def _require_writable(path: Path) -> None:
    """Raise StoreError unless the lock's file can be written, or made where it will be."""
    try:
        if path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            return
        there = next(one for one in path.parents if one.exists())
    except OSError as error:
        raise _unwritable(path.parent, str(error.strerror)) from error
    if not there.is_dir():
        raise _unwritable(path.parent, f"{there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise _unwritable(path.parent, f"{there} may not be written")


def _unwritable(folder: Path, why: str) -> StoreError:
    return StoreError(
        f"the tables in {folder} can't be written: {why}. See to its rights and its disk, or name "
        "another folder"
    )


@contextmanager
def writing(
    spark: SparkSession,
    folder: str,
    job: str,
    lease_seconds: float,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Be the only writer of the tables in `folder` while the block runs; others see `job` as the
    writer's name. On a store a job that doesn't renew its lease for `lease_seconds` loses it.

    Not nested: work inside of another job's block takes no lock of its own. Raises TablesLocked
    naming the other writer, StopAsked when `stop` returns true during the wait for a store's lease.
    """
    path = _path(folder)
    if path is None:
        with leased(spark, folder, job, lease_seconds, stop):
            yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path.parent, str(error.strerror)) from error
    file = java_class(spark, "java.io.RandomAccessFile")(str(path), "rw")
    try:
        _acquire(file.getChannel(), folder, path)
        path.write_text(f"{os.getpid()} {job}\n")
        try:
            yield
        finally:
            path.write_text("")
    finally:
        with suppress(Py4JError, OSError):  # a JVM that is gone holds nothing
            file.close()


def _acquire(channel: JavaObject, folder: str, path: Path) -> None:
    give_up = monotonic() + ENDING_SECONDS_MAX
    while not _tried(channel):
        if _alive(path) or monotonic() > give_up:
            raise _locked(folder, path)
        sleep(ATTEMPT_SECONDS)


def _tried(channel: JavaObject) -> bool:
    try:
        return channel.tryLock() is not None
    except Py4JJavaError as error:
        if "OverlappingFileLockException" in str(error.java_exception):
            return False  # this very JVM holds it
        raise


def _holder(path: Path) -> tuple[int, str]:
    """Return pid and job that the file names; 0 and an empty text when it names none."""
    pid, _, job = path.read_text(errors="replace").strip().partition(" ")
    return (int(pid), job) if pid.isdigit() else (0, "")


def _alive(path: Path) -> bool:
    """Whether the process that the file names runs."""
    pid, _ = _holder(path)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return pid > 0


def _locked(folder: str, path: Path) -> TablesLocked:
    pid, job = _holder(path)
    who = f"`{job}` with pid {pid}" if pid else "another process"
    return TablesLocked(
        f"The tables in {folder} are being written by {who}: one process at a time writes them. "
        "Wait until it is done, or stop it first."
    )


def _path(folder: str) -> Path | None:
    """Return the lock's file; None when the folder isn't on a disk of this machine."""
    path = local(folder)
    return None if path is None else path / NAME
