"""How a streaming job ends: by itself, or when somebody asks it to."""

import logging
import signal
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

#: Seconds between two looks at whether somebody wants the job to stop.
STOP_SECONDS = 1


class StopRequest:
    """Whether somebody wants the job to stop: a flag, which threads look at.

    The asking only sets it: an exception in the middle of a call to the JVM would leave the call's
    answer for the next one, and a lock may be held by the thread that hears the signal.
    """

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """A signal asks from now on; to be called on the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True
        logging.disable()  # Spark's client would report each call that finds no JVM any more


def wait(query: StreamingQuery, request: StopRequest) -> bool:
    """Until the query ends (True), or somebody asks the job to: a batch that is cut runs again.

    A signal to the whole process group ends the JVM as well, and then there is nothing left to
    stop.
    """
    try:
        while not request.asked and not query.awaitTermination(STOP_SECONDS):
            pass
        query.stop()
    except (Py4JError, PySparkException, OSError):
        if not request.asked:
            raise
    return not request.asked
