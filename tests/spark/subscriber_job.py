"""A job that drains a subscription into a Delta table, and dies by kill -9 where it is told to.

    python subscriber_job.py OPTIONS-AS-JSON TABLE CHECKPOINT POINT BATCH

Points: `before` and `after` the write of this batch, or when Spark has `committed` it and before it
is settled. All its processes die at once: Python, the JVM, the source's own.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from conftest import FAST
from pyspark.sql import DataFrame

from jobs import drain
from jobs.session import session


def die() -> None:
    os.killpg(0, signal.SIGKILL)


def main(options: str, table: str, checkpoint: str, point: str, batch: str) -> None:
    write = drain.append_once

    def append_or_die(rows: DataFrame, number: int, to: str) -> None:
        here = number == int(batch)
        if here and point == "before":
            die()
        write(rows, number, to)
        if here and point == "after":
            die()

    def watch() -> None:
        while not Path(checkpoint, "commits", batch).exists():
            time.sleep(0.001)
        die()

    drain.append_once = append_or_die
    if point == "committed":
        threading.Thread(target=watch, daemon=True).start()
    trigger = "3 seconds" if point == "committed" else "available-now"
    settings = drain.Settings(json.loads(options), table, checkpoint, trigger)
    drain.build(session(FAST), settings).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
