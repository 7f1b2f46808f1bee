"""How Java is started for Spark in the tests. `python class_archive.py FILE` makes an archive of
Spark's classes, in Java's own form (CDS).

A JVM that has it maps what it would otherwise unpack, read and check, class by class: start and
first jobs take 10 s of CPU in place of 15, and the tests start dozens of JVMs. One with other jars,
or another Java, goes without.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: Where `make test` has it made.
ARCHIVE = Path(__file__).parents[2] / "build" / "spark.jsa"
#: What spark-submit, and so pyspark, adds to the command line of its JVM.
VARIABLE = "SPARK_SUBMIT_OPTS"
#: What Spark's scripts add to that of the one before, which only puts that command line together.
LAUNCHER_VARIABLE = "SPARK_LAUNCHER_OPTS"

#: None of the tests' JVMs lives long enough for Java's second compiler (`conf/spark.conf`).
FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
#: Java would collect all of its garbage each time when it has read some more classes.
MANY_CLASSES = "-XX:MetaspaceSize=256m"
SHORT_LIFE = f"{FIRST_COMPILER} -XX:ReservedCodeCacheSize=240m {MANY_CLASSES}"
#: Each sort, join and sum begins with a page of memory, tens of megabytes by default: an audit of
#: ten rows had 1.3 GB, and half of Java's collections of garbage were for that.
SMALL_PAGES = "-Dspark.buffer.pageSize=1m"
#: Of what a job makes next to nothing lives on: half as many collections, each as quick.
YOUNG = "-XX:NewSize=256m"


def options() -> str:
    """How Java is started for a short life, with the archive if it is there; that it doesn't fit is
    not worth a line."""
    archive = f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else ""
    return SHORT_LIFE + archive


def use() -> None:
    """All of Spark's JVMs that this process starts, and its children, are for a short life, and
    for few rows."""
    os.environ[VARIABLE] = f"{options()} {YOUNG} {SMALL_PAGES}"
    os.environ[LAUNCHER_VARIABLE] = FIRST_COMPILER


def make(file: Path) -> None:
    """Let a JVM do what most tests do, and write down what it has loaded when it ends."""
    file.parent.mkdir(parents=True, exist_ok=True)
    begun = file.with_suffix(".new")
    subprocess.run(
        [sys.executable, __file__, "--load"],
        env=os.environ | {VARIABLE: f"{SHORT_LIFE} -XX:ArchiveClassesAtExit={begun} -Xlog:disable"},
        stdout=subprocess.PIPE,  # its end is that of the JVM, which has more to do than Python
        check=True,
    )
    begun.replace(file)


def _load() -> None:
    from spark_place import Place, first_part, second_part  # noqa: PLC0415 (the child's alone)
    from spark_settings import FAST  # noqa: PLC0415

    from distributary.jobs.session.session import session  # noqa: PLC0415

    spark = session(FAST)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(spark, Path(folder))
        for part in (first_part, second_part):
            part(place)
            place.materialize()
        place.table("messages").orderBy("sequence").collect()
    spark.stop()


if __name__ == "__main__":
    _load() if sys.argv[1] == "--load" else make(Path(sys.argv[1]))
