"""A job that drains a subscription into a Delta table, and dies by kill -9 where it is told to.

    python subscriber_job.py OPTIONS-AS-JSON TABLE CHECKPOINT POINT

Points: `before` and `after` the write of its first batch, or when Spark has `committed` it and
before it is settled. All its processes die at once: Python, the JVM, the source's own.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from pyspark.sql import DataFrame
from spark_settings import FAST

from distributary.jobs.session.session import session
from distributary.jobs.subscription import drain


def die() -> None:
    os.killpg(0, signal.SIGKILL)


def main(options: str, table: str, checkpoint: str, point: str) -> None:
    write = drain.append_once

    def append_or_die(rows: DataFrame, number: int, to: str) -> None:
        if point == "before":
            die()
        write(rows, number, to)
        if point == "after":
            die()

    def watch() -> None:
        while not Path(checkpoint, "commits", "0").exists():
            time.sleep(0.001)
        die()

    drain.append_once = append_or_die
    if point == "committed":
        threading.Thread(target=watch, daemon=True).start()
    # The next trigger settles: no watch is so late.
    settings = drain.Settings(json.loads(options), table, checkpoint, trigger="20 seconds")
    drain.build(session(FAST), settings).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
