"""Reports of the demo's processes to their parent: a JSON object per line, on stdout."""

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from distributary.pipeline.errors import DistributaryError

#: Seconds between two reports, so that they cost nothing.
INTERVAL_SECONDS = 0.1


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """Progress of a process. `held` are deliveries without an outcome."""

    ready: bool = False
    done: int = 0
    held: int = 0
    dying: bool = False
    error: str = ""


@dataclass(slots=True)
class Reporter:
    """Reports its process' progress at intervals."""

    _next: float = 0.0

    def tell(self, member: Member, *, now: bool = False) -> None:
        """Report progress, at once (`now`) or if the last report is long enough ago."""
        at = time.monotonic()
        if now or at >= self._next:
            self._next = at + INTERVAL_SECONDS
            sys.stdout.buffer.write(msgspec.json.encode(member) + b"\n")
            sys.stdout.buffer.flush()


def speak(play: Callable[[Reporter], None]) -> int:
    """Play a part to its end and return the exit code. Expected errors become a sentence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process stops this one
    reporter = Reporter()
    try:
        play(reporter)
    except DistributaryError as error:
        reporter.tell(Member(error=str(error)), now=True)
        return 1
    except BrokenPipeError:
        return 1  # the parent process is gone
    return 0
