"""Events as log lines, for people (default) or for machines; what peers can cause is limited."""

import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

import msgspec
import structlog

from distributary.pipeline.errors import StoreError

_events = structlog.get_logger("log")

#: What peers can cause, as often as they like. All other lines are the gateway's own, and always
#: written.
OF_PEERS = frozenset(
    {
        *("connection.opened", "connection.closed", "connection.failed", "connection.bug"),
        *("permission.refused", "client_id.refused", "transaction.failed", "management.answered"),
        *("transaction.ended", "transaction.completed", "transaction.waits"),
        *("temporary.made", "temporary.ended", "connections.waiting", "selector.failed"),
        *("route.failed", "messages.misfit", "schema.set", "schema.dropped"),
        "schemas.check_failed",
        "http.bug",
    }
)
#: And what happens to subscriptions: their life is in the log of the messages, too.
OF_SUBSCRIPTIONS = "subscription."
#: Seconds between two lines that sum up one kind of what may happen often.
QUIET_SECONDS = 60.0


class _Window(msgspec.Struct):
    """The lines of one kind since `began` (seconds), and how many more there would have been."""

    began: float
    written: int = 0
    left_out: int = 0


class LineBudget:
    """Of each kind of event that peers can cause `lines_max` are written in a window of `seconds`;
    what more come are counted, and `tell` says how many when their window is over. `clock` gives
    seconds and never goes back. Lines of the level `debug` are written while it is `verbose`."""

    def __init__(
        self,
        lines_max: int,
        seconds: float,
        clock: Callable[[], float],
        *,
        verbose: bool = False,
    ) -> None:
        self._lines_max, self._clock, self.seconds = lines_max, clock, seconds
        self._verbose = verbose
        self._windows: dict[str, _Window] = {}
        self._left_out: dict[str, int] = {}

    def __call__(
        self, _logger: object, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """A processor of structlog. Raises DropEvent for a line that is left out."""
        if method == "debug" and not self._verbose:
            raise structlog.DropEvent
        kind = str(event["event"])
        if kind not in OF_PEERS and not kind.startswith(OF_SUBSCRIPTIONS):
            return event
        now = self._clock()
        window = self._windows.get(kind)
        if window is None or now - window.began >= self.seconds:
            self._close(kind)
            window = self._windows[kind] = _Window(now)
        if window.written >= self._lines_max:
            window.left_out += 1
            raise structlog.DropEvent
        window.written += 1
        return event

    def turn(self) -> None:
        """From now on `debug` is written if it wasn't, and isn't if it was."""
        self._verbose = not self._verbose
        _events.warning("level.changed", to="debug" if self._verbose else "info")

    def _close(self, kind: str) -> None:
        window = self._windows.pop(kind, None)
        if window is not None and window.left_out:
            self._left_out[kind] = self._left_out.get(kind, 0) + window.left_out

    def left_out(self, *, all_of_it: bool = False) -> dict[str, int]:
        """How many lines of each kind were left out in windows that are over, or in all; each is
        said once."""
        now = self._clock()
        for kind in [*self._windows]:
            if all_of_it or now - self._windows[kind].began >= self.seconds:
                self._close(kind)
        found, self._left_out = self._left_out, {}
        return found

    def tell(self, *, all_of_it: bool = False) -> None:
        """Write it, one line of a kind."""
        for kind, count in self.left_out(all_of_it=all_of_it).items():
            _events.warning("lines.left_out", of=kind, count=count, limit="log.lines_max")


class LogFile:
    """A file of log lines that may be renamed under the gateway: the next line makes a new one and
    goes there, so that a rotation needs no signal and loses nothing. A line that the disk doesn't
    take is left out: a full disk must not end the gateway that speaks of it."""

    def __init__(self, path: Path) -> None:
        """Raises StoreError when it can't be written."""
        self._path = path
        try:
            self._file = self._open()
        except OSError as error:
            raise StoreError(
                f"the log {path} can't be written: {error.strerror}. See to its folder and its "
                "rights, or name another by log.file"
            ) from error

    def write(self, text: str) -> int:
        try:
            if not self._there():
                renamed, self._file = self._file, self._open()
                renamed.close()
            return os.write(self._file.fileno(), text.encode())
        except OSError:
            return 0

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """No line comes any more."""
        self._file.close()

    def _there(self) -> bool:
        """Whether the open file is still the one of that name."""
        with suppress(FileNotFoundError):
            return os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        return False

    def _open(self) -> TextIO:
        return self._path.open("a")


def set_up(*, as_json: bool, budget: LineBudget, file: str = "") -> None:
    """Events go to that file, or to standard output, one line each, as soon as they happen. Raises
    StoreError when the file can't be written."""
    to = LogFile(Path(file)) if file else sys.stdout
    renderer = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=not file and sys.stdout.isatty())
    )
    structlog.configure(
        processors=[
            budget,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", to)),
        cache_logger_on_first_use=True,
    )


class SummedLines:
    """What may happen often, and isn't to be left out of the log: each kind at once, then what came
    to it within QUIET_SECONDS. `clock` is in seconds and doesn't jump."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._untold: dict[tuple[str, ...], int] = {}
        self._told_at: dict[tuple[str, ...], float] = {}

    def add(self, kind: tuple[str, ...], count: int) -> None:
        """So many more."""
        self._untold[kind] = self._untold.get(kind, 0) + count

    def due(self) -> list[tuple[tuple[str, ...], int]]:
        """What is to be said now, and how many it is; called from time to time."""
        now = self._clock()
        said = [(one, self._untold.pop(one)) for one in [*self._untold] if self._due(one, now)]
        for kind in [one for one in self._told_at if self._due(one, now)]:
            del self._told_at[kind]
        self._told_at |= dict.fromkeys((kind for kind, _ in said), now)
        return said

    @property
    def waits(self) -> bool:
        """Whether something is still to be said."""
        return bool(self._untold)

    def _due(self, kind: tuple[str, ...], now: float) -> bool:
        told = self._told_at.get(kind)
        return told is None or now - told >= QUIET_SECONDS
