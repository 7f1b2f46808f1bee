"""Ends of a streaming job: by itself, or by a signal."""

import logging
import signal
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

#: Seconds between two looks at the request to stop.
STOP_SECONDS = 1


class StopRequest:
    """Request to stop the job: a flag, which threads look at.

    A signal only sets the flag: an exception in the middle of a call to the JVM would leave the
    call's answer for the next call, and the thread that gets the signal may hold a lock.
    """

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """Let signals set the flag from now on; call this on the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True
        logging.disable()  # Spark's client would report each call that finds no JVM any more


def wait(query: StreamingQuery, request: StopRequest) -> bool:
    """Wait until the query ends (True), or the job is asked to stop: an interrupted batch runs
    again.

    A signal to the whole process group ends the JVM as well: then no query is left to stop.
    """
    try:
        while not request.asked and not query.awaitTermination(STOP_SECONDS):
            pass
        query.stop()
    except (Py4JError, PySparkException, OSError):
        if not request.asked:
            raise
    return not request.asked
