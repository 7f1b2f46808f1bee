"""The owner's sign of life, and the engine's proof that the home is still ours.

While the loop is alive a small thread writes signs of life to the lock file. A standby takes over
when it has seen no sign for a whole lease; so for most of a lease after a sign this owner needn't
look at the file. After a longer pause (the process was stopped, the machine slept), it looks before
it sends any byte: bytes that a former owner sends can't be taken back.
"""

import asyncio
import threading
from time import CLOCK_BOOTTIME, clock_gettime

import structlog

from distributary.ingest.gateway.ownership.any_home import HomeOwner
from distributary.ingest.runtime.host import Host
from distributary.pipeline.errors import BeatFailed

_events = structlog.get_logger("owner")

#: A failed sign of life is tried again after the period divided by this number.
AGAIN = 4
#: The part of a lease after a sign in which no standby can have taken over, even if the machines'
#: clocks run at slightly different speeds.
SURE = 2 / 3


def _clock() -> float:
    """Return seconds, including those in which the machine slept."""
    return clock_gettime(CLOCK_BOOTTIME)


class Heartbeat:
    """Keeps a home for as long as the loop turns. When another process owns the home `sure` is
    False, and the gateway stops."""

    def __init__(self, host: Host, owner: HomeOwner) -> None:
        self._loop, self._halt, self._owner = host.loop, host.halt, owner
        self._lease = host.settings.owner.lease_ms / 1_000
        self._period = self._lease / owner.beats
        self._reason: str | None = None
        self._said = False
        self._sure_until = 0.0
        self._begun = self._turned = _clock()  # when the loop showed last that it turns
        self._starting = True
        self._timer: asyncio.TimerHandle | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """End the start, which blocks the loop: from now on the loop must turn."""
        self._turn()
        self._starting = False

    def sure(self) -> bool:
        """Whether the home is ours beyond doubt; looks at the disk only after a pause."""
        if clock_gettime(CLOCK_BOOTTIME) < self._sure_until:
            return True
        if self._reason is None:
            self._look(_clock())
        return self._reason is None

    def stop(self) -> None:
        """End the signs of life; call it before the home is given back."""
        self._end.set()
        self._thread.join()
        if self._timer is not None:
            self._timer.cancel()

    def _turn(self) -> None:
        self._turned = _clock()
        self._timer = self._loop.call_later(self._period, self._turn)

    def _run(self) -> None:
        shown, wait = 0.0, self._period
        while not self._end.wait(wait):
            turned, wait = _clock() if self._starting else self._turned, self._period
            if turned != shown and self._reason is None:
                shown = turned
                if not self._look(turned):
                    shown, wait = 0.0, self._period / AGAIN

    def _look(self, since: float) -> bool:
        """Write a sign of life, then check that the home is still ours; on the heartbeat's thread
        or the loop's. Return False when that isn't known, and the home is ours for now anyway.

        `since` is a moment at which the loop was alive, before the sign. A pause of the process can
        make a sign that is under way fail, whether the home is ours or not. So only a failed sign
        that began after the pause loses the home.
        """
        asked = _clock()
        try:
            self._owner.beat()
            self._owner.check()
        except BeatFailed as error:
            sure = max(self._sure_until, self._begun + SURE * self._lease)
            if _clock() < sure:
                return False
            if asked < sure:
                return self._look(since)
            self._lose(error)
        except Exception as error:  # noqa: BLE001 (HomeLost, OSError; a bug must not end the thread)
            self._lose(error)
        else:
            self._sure_until = max(self._sure_until, since + SURE * self._lease)
        return True

    def _lose(self, error: Exception) -> None:
        self._sure_until = 0.0
        self._reason = str(error)
        self._loop.call_soon_threadsafe(self._say)

    def _say(self) -> None:
        if not self._said:
            self._said = True
            _events.error("owner.lost", reason=self._reason)
            self._halt.now(self._reason or "the home has another owner")
