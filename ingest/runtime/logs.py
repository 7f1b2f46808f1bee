"""Events as log lines, for people (default) or for machines; lines that peers cause are limited."""

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

#: Events that peers can cause, as often as they like. All other lines are the gateway's own, and
#: always written.
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
#: Prefix of subscriptions' events, which are limited, too: the log of the messages has them.
OF_SUBSCRIPTIONS = "subscription."
#: Seconds between two lines that sum up one kind of frequent event.
QUIET_SECONDS = 60.0


class _Window(msgspec.Struct):
    """The lines of one kind since `began` (seconds), and the number of lines left out."""

    began: float
    written: int = 0
    left_out: int = 0


class LineBudget:
    """The limit of log lines. Of each kind of event that peers can cause `lines_max` are written in
    a window of `seconds`; further ones are counted, and `tell` logs their number when the window is
    over. `clock` returns seconds and never goes back. Lines of the level `debug` are written only
    while it is `verbose`."""

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
        """Process an event for structlog. Raises DropEvent for a line that is left out."""
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
        """Switch lines of the level `debug` on or off."""
        self._verbose = not self._verbose
        _events.warning("level.changed", to="debug" if self._verbose else "info")

    def _close(self, kind: str) -> None:
        window = self._windows.pop(kind, None)
        if window is not None and window.left_out:
            self._left_out[kind] = self._left_out.get(kind, 0) + window.left_out

    def left_out(self, *, all_of_it: bool = False) -> dict[str, int]:
        """Return the lines left out of each kind, in windows that are over, or in all. Each line is
        returned once."""
        now = self._clock()
        for kind in [*self._windows]:
            if all_of_it or now - self._windows[kind].began >= self.seconds:
                self._close(kind)
        found, self._left_out = self._left_out, {}
        return found

    def tell(self, *, all_of_it: bool = False) -> None:
        """Log the numbers of lines left out, one line for each kind."""
        for kind, count in self.left_out(all_of_it=all_of_it).items():
            _events.warning("lines.left_out", of=kind, count=count, limit="log.lines_max")


class LogOutput:
    """Standard output for log lines. A line that can't be written is left out: a full disk, or a
    reader of a pipe that has gone, must not end the gateway that logs it."""

    def __init__(self) -> None:
        # A process that was started without standard output gives its number to another file.
        self._number = sys.stdout.fileno() if sys.stdout is not None else -1
        self.coloured = sys.stdout is not None and sys.stdout.isatty()

    def write(self, text: str) -> int:
        rest = text.encode()
        try:
            while rest:
                rest = rest[os.write(self._number, rest) :]
        except OSError:
            return 0
        return len(text)

    def flush(self) -> None:
        """Do nothing: lines are written at once."""


class LogFile:
    """A file of log lines that may be renamed while the gateway runs: the next line then makes a
    new file, so that a rotation needs no signal and loses no line. A line that can't be written is
    left out: a full disk must not end the gateway that logs it."""

    coloured = False

    def __init__(self, path: Path) -> None:
        """Open the file. Raises StoreError when it can't be written."""
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
        """Do nothing: lines are written at once."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _there(self) -> bool:
        """Whether the open file still has its name."""
        with suppress(FileNotFoundError):
            return os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        return False

    def _open(self) -> TextIO:
        return self._path.open("a")


def set_up(*, as_json: bool, budget: LineBudget, file: str = "") -> None:
    """Send events to a file, or to standard output, one line each, as soon as they happen. Raises
    StoreError when the file can't be written."""
    to = LogFile(Path(file)) if file else LogOutput()
    renderer = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=to.coloured)
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
    """Frequent events that must not be missing in the log: the first of each kind is logged at
    once, later ones are summed up every QUIET_SECONDS. `clock` returns seconds and doesn't jump."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._untold: dict[tuple[str, ...], int] = {}
        self._told_at: dict[tuple[str, ...], float] = {}

    def add(self, kind: tuple[str, ...], count: int) -> None:
        """Count events of a kind."""
        self._untold[kind] = self._untold.get(kind, 0) + count

    def due(self) -> list[tuple[tuple[str, ...], int]]:
        """Return the kinds to log now, each with its count; call it from time to time."""
        now = self._clock()
        said = [(one, self._untold.pop(one)) for one in [*self._untold] if self._due(one, now)]
        for kind in [one for one in self._told_at if self._due(one, now)]:
            del self._told_at[kind]
        self._told_at |= dict.fromkeys((kind for kind, _ in said), now)
        return said

    @property
    def waits(self) -> bool:
        """Whether events are still to be logged."""
        return bool(self._untold)

    def _due(self, kind: tuple[str, ...], now: float) -> bool:
        told = self._told_at.get(kind)
        return told is None or now - told >= QUIET_SECONDS
