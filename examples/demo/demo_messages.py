"""What the demo's processes tell the one that started them: a JSON object a line, on stdout."""

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from distributary.pipeline.errors import DistributaryError

#: Seconds between two reports, so that telling costs nothing.
INTERVAL_SECONDS = 0.1


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a process is. `held` are deliveries without an outcome."""

    ready: bool = False
    done: int = 0
    held: int = 0
    dying: bool = False
    error: str = ""


@dataclass(slots=True)
class Reporter:
    """Says now and then how far its process is."""

    _next: float = 0.0

    def tell(self, member: Member, *, now: bool = False) -> None:
        """Report this, at once or if the last report is long enough ago."""
        at = time.monotonic()
        if now or at >= self._next:
            self._next = at + INTERVAL_SECONDS
            sys.stdout.buffer.write(msgspec.json.encode(member) + b"\n")
            sys.stdout.buffer.flush()


def speak(play: Callable[[Reporter], None]) -> int:
    """Play a part to its end; the exit code. What goes wrong on the way is told as a sentence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us says when to stop
    reporter = Reporter()
    try:
        play(reporter)
    except DistributaryError as error:
        reporter.tell(Member(error=str(error)), now=True)
        return 1
    except BrokenPipeError:
        return 1  # nobody listens any more
    return 0
