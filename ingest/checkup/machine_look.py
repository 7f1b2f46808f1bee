"""The facts of a machine and a home, without taking or changing anything that a gateway uses."""

import ctypes
import os
import resource
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from distributary.ingest.runtime import budgets
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.checkup.findings import (
    HomeFacts,
    HomeState,
    LimitFacts,
    PortFacts,
    PortState,
)
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.tables.home.home import Home

#: First bytes of an AMQP connection with a login (AMQP 1.0, 5.3.2).
GREETING: Final = b"AMQP\x03\x01\x00\x00"
GREETING_SECONDS: Final = 2.0
#: Result of `adjtimex`, and the bit of its status, for a clock that isn't synchronised.
_TIME_ERROR, _STA_UNSYNC = 5, 1 << 6
#: Bytes of `struct timex`, and where its status lies (64-bit Linux).
_TIMEX_BYTES, _STATUS_AT = 208, 40


def limits(settings: Settings, own_files: int) -> LimitFacts:
    """Return the process's limits. `own_files`: files that a gateway needs beside connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a gateway raises the soft one
    return LimitFacts(
        None if hard == resource.RLIM_INFINITY else hard,
        settings.amqp.connections_max + own_files,
        _memory(),
        budgets.together(settings).gateway,
    )


def _memory() -> int | None:
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def clock_synchronised() -> bool | None:
    """Whether the kernel says that the clock is synchronised; None where it doesn't say."""
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    if adjtimex is None:
        return None
    state = ctypes.create_string_buffer(_TIMEX_BYTES)
    said = int(adjtimex(state))
    if said < 0:
        return None
    status = int.from_bytes(state.raw[_STATUS_AT : _STATUS_AT + 4], "little")
    return said != _TIME_ERROR and not status & _STA_UNSYNC


def port(setting: str, host: str, number: int) -> PortFacts:
    """Try to listen there, and stop listening at once."""
    at = f"{host}:{number}"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, number), family=family):
            return PortFacts(setting, at, PortState.FREE)
    except OSError as error:
        why = error.strerror or str(error)
    place = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (a listener on all addresses is reached there)
    with (
        suppress(OSError),
        socket.create_connection((place, number), timeout=GREETING_SECONDS) as there,
    ):
        state = PortState.TAKEN
        with suppress(OSError):
            there.sendall(GREETING)
            if there.recv(8).startswith(b"AMQP"):
                state = PortState.AMQP
        return PortFacts(setting, at, state, why)
    return PortFacts(setting, at, PortState.REFUSED, why)


def home(at: Home) -> HomeFacts:
    """Return the facts of a home's folder."""
    root = at.root
    try:
        names = {one.name for one in root.iterdir() if not one.name.startswith(".doctor-")}
        shared = bool(root.stat().st_mode & 0o002)
    except FileNotFoundError:
        return _absent(root)
    except OSError as error:
        return HomeFacts(str(root), HomeState.UNUSABLE, why=error.strerror or str(error))
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return HomeFacts(str(root), HomeState.UNUSABLE, why="it may not be read and written")
    if not names:
        return HomeFacts(str(root), HomeState.EMPTY, open_to_all=shared)
    if RESTORING in names:
        return HomeFacts(str(root), HomeState.RESTORING, open_to_all=shared)
    if names & {"journal", "lock", "dispatch", "lake.json"} or at.topic_log.exists():
        return HomeFacts(str(root), HomeState.OURS, _owner(at), shared)
    return HomeFacts(str(root), HomeState.FOREIGN, open_to_all=shared)


def _absent(root: Path) -> HomeFacts:
    above = first_there(root)
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = f"{above} is no folder that may be written"
        return HomeFacts(str(root), HomeState.UNUSABLE, why=why)
    return HomeFacts(str(root), HomeState.ABSENT)


def first_there(path: Path) -> Path:
    """Return the path itself, or its nearest parent that exists."""
    return next(one for one in (path, *path.parents) if one.exists())


def _owner(at: Home) -> int:
    """Return the pid that has the lock; 0 for none. The kernel's list is read, as trying the lock
    would take it for a moment."""
    with suppress(OSError):
        lock = at.lock_path.stat()
        wanted = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if "FLOCK" in words and wanted in words:
                return int(words[words.index(wanted) - 1])
    return 0


def open_to_others(file: Path) -> bool | None:
    """Whether other users may read or change a file; None where it can't be read."""
    try:
        file.read_bytes()
        return bool(file.stat().st_mode & 0o077)
    except OSError:
        return None
