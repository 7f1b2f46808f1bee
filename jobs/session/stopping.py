"""How a streaming job ends: by itself, or when somebody asks it to."""

import logging
import signal
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

#: Seconds between two looks at whether somebody wants the job to stop.
STOP_SECONDS = 1


def wait(query: StreamingQuery) -> bool:
    """Until the query ends (True), or somebody asks the job to: a batch that is cut runs again.

    The asking only sets a flag: an exception in the middle of a call to the JVM would leave the
    call's answer for the next one. A signal to the whole process group ends the JVM as well, and
    then there is nothing left to stop.
    """
    asked = False

    def stop(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        logging.disable()  # Spark's client would report each call that finds no JVM any more

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        while not asked and not query.awaitTermination(STOP_SECONDS):
            pass
        query.stop()
    except (Py4JError, PySparkException, OSError):
        if not asked:
            raise
    return not asked
