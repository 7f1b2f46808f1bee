"""Speed and kind of a disk: tried in a folder of its own, which is removed."""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from distributary.pipeline.checkup.findings import DiskFacts

#: Bytes of one append that is synced, how many of them, and for how long at most.
APPEND_BYTES: Final = 4_096
APPENDS_MAX: Final = 200
APPEND_SECONDS_MAX: Final = 3.0
#: Bytes that are written in one go.
WRITE_BYTES: Final = 32 << 20


def tried(folder: Path) -> DiskFacts:
    """Try the disk of this folder, which exists and may be written. Raises OSError."""
    trial = Path(tempfile.mkdtemp(prefix=".doctor-", dir=folder))
    try:
        times = sorted(_syncs(trial / "appends"))
        speed = _speed(trial / "bytes")
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    room = os.statvfs(folder)
    return DiskFacts(
        filesystem(folder),
        times[len(times) // 2] * 1e3,
        times[len(times) * 99 // 100] * 1e3,
        speed,
        room.f_bavail * room.f_frsize,
        room.f_favail if room.f_files else None,
    )


def _syncs(file: Path) -> list[float]:
    """Return the seconds of each `fdatasync`, without the first ones."""
    took: list[float] = []
    data, until = os.urandom(APPEND_BYTES), time.monotonic() + APPEND_SECONDS_MAX
    fd = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(fd, 0, APPEND_BYTES * APPENDS_MAX)
        os.fsync(fd)
        while len(took) < APPENDS_MAX and (time.monotonic() < until or len(took) < 2):
            os.pwrite(fd, data, APPEND_BYTES * len(took))
            began = time.perf_counter()
            os.fdatasync(fd)
            took.append(time.perf_counter() - began)
    finally:
        os.close(fd)
    return took


def _speed(file: Path) -> float:
    """Return the bytes a second of one large write with its fsync."""
    data = os.urandom(1 << 20)
    fd = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        began = time.perf_counter()
        for _ in range(WRITE_BYTES >> 20):
            os.write(fd, data)
        os.fdatasync(fd)
        return WRITE_BYTES / (time.perf_counter() - began)
    finally:
        os.close(fd)


def filesystem(folder: Path) -> str:
    """Return the kind of file system of a folder, as the kernel calls it; `unknown` where the
    kernel doesn't list it (proc(5), mountinfo)."""
    device = folder.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    found = "unknown"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words, _, rest = line.partition(" - ")
        if words.split()[2] == wanted:
            found = rest.split()[0]
    return found
