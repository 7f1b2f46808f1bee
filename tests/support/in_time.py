"""Steps that a test must finish within a time that it has set itself, such as an expiry, a lock or
a login. On a busy machine a step may be too late, which proves nothing: the test does it again with
more time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway_process import PATIENCE


class Late(Exception):
    """The machine was slower than this attempt allowed."""


class InTime:
    """One attempt, and the time that it has."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ms = round(1_000 * seconds)

    @contextmanager
    def within(self) -> Iterator[None]:
        """If the block takes that time or longer, the attempt proves nothing: `Late` is raised. A
        failure within the time is a failure."""
        ends = time.monotonic() + self.seconds
        try:
            yield
        except Exception as error:
            if time.monotonic() < ends:
                raise
            raise Late from error
        if time.monotonic() >= ends:
            raise Late


def in_time(attempt: Callable[[InTime], None], seconds: float) -> None:
    """Make an attempt with so many seconds; after one that was late, one with three times as many.
    The attempt names whatever it makes by its `ms`, where others could see it."""
    while True:
        try:
            return attempt(InTime(seconds))
        except Late:
            seconds *= 3
            assert seconds < PATIENCE, "the machine is too slow for any attempt"
