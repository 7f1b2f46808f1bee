"""A gateway's notices to the service manager that started it: it is ready, it lives, it stops.

The protocol is systemd's (sd_notify(3)): datagrams to the socket that `NOTIFY_SOCKET` names.
Without that variable no notice is sent; the gateway goes on when a notice can't be sent.
"""

import asyncio
import os
import socket
from collections.abc import Mapping

import structlog

from distributary.pipeline.errors import InvalidRequest

_events = structlog.get_logger("gateway")

#: Signs of life in the time that the watchdog waits for one (systemd's advice: two or more).
SIGNS = 2


class ServiceNotice:
    """Sends signs of life from `ready` on, as often as the watchdog wants: the manager restarts a
    gateway whose loop hangs. All methods run on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, environment: Mapping[str, str]) -> None:
        """Raises InvalidRequest if the manager's variables are invalid."""
        self._loop = loop
        self._socket: socket.socket | None = None
        self._seconds = _watchdog_seconds(environment)
        self._timer: asyncio.TimerHandle | None = None
        self._failed = False
        address = environment.get("NOTIFY_SOCKET", "")
        if not address:
            return
        if address[0] not in "/@":
            raise InvalidRequest(f"NOTIFY_SOCKET is '{address}': a path, or @ and a name")
        self._address = "\0" + address[1:] if address[0] == "@" else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def ready(self, status: str) -> None:
        """Tell that the gateway serves or stands by; people read `status`. May be called again."""
        self._say(f"READY=1\nSTATUS={status}")
        if self._socket is not None and self._seconds and self._timer is None:
            self._lives()

    def stops(self) -> None:
        """Tell that the gateway begins to stop."""
        self._say("STOPPING=1\nSTATUS=it stops")

    def close(self) -> None:
        """Send no more notices."""
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _lives(self) -> None:
        self._say("WATCHDOG=1")
        self._timer = self._loop.call_later(self._seconds / SIGNS, self._lives)

    def _say(self, text: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(text.encode(), self._address)
        except OSError as error:
            if not self._failed:
                self._failed = True
                _events.warning("service.unheard", reason=os.strerror(error.errno or 0))


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """Return how long the manager waits for a sign of life; 0: it has no watchdog."""
    said = environment.get("WATCHDOG_USEC", "")
    if not said or environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    if not said.isdecimal():
        raise InvalidRequest(f"WATCHDOG_USEC is '{said}': a number of microseconds")
    return int(said) / 1_000_000
