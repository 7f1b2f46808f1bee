"""How Java is started for Spark in the tests. `python class_archive.py FILE` has an archive of
Spark's classes made, by `distributary jobs prepare`.

A JVM that has it maps what it would otherwise unpack, read and check, class by class: start and
first jobs take 10 s of CPU in place of 15, and the tests start dozens of JVMs. One with other jars,
or another Java, goes without.
"""

import os
import subprocess
import sys
from pathlib import Path

#: Where `make test` has it made, and the cache that has it under its own name.
ARCHIVE = Path(__file__).parents[2] / "build" / "spark.jsa"
CACHE = ARCHIVE.with_name("cache")
#: What spark-submit, and so pyspark, adds to the command line of its JVM.
VARIABLE = "SPARK_SUBMIT_OPTS"
#: All that may name another archive.
VARIABLES = (VARIABLE, "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
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
    """Have it made as users do, in a cache of the tests' own, and name it here."""
    environment = {name: said for name, said in os.environ.items() if name not in VARIABLES}
    said = subprocess.run(
        [sys.executable, "-m", "distributary.jobs", "prepare"],
        env=environment | {"XDG_CACHE_HOME": str(CACHE), VARIABLE: SHORT_LIFE},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    begun = file.with_suffix(".new")
    begun.unlink(missing_ok=True)
    begun.symlink_to(said.stdout.strip())
    begun.replace(file)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
