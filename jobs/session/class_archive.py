"""Spark's classes in Java's own form (CDS), for sessions that begin on this machine.

A JVM maps what is in such an archive instead of unpacking, reading and checking it, class by class:
a session and its first questions load 26,000 classes. `distributary jobs prepare` makes one.

Rule: an archive is of one Java and of these jars, and its name says which. Where none fits, where
      Java finds that it doesn't, or where somebody has his own, Java does as ever, without a word.
"""

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

#: How Java's options name an archive, to be used or made.
_NAMED: Final = ("SharedArchiveFile", "ArchiveClassesAtExit", "SharedClassListFile", "Xshare")
#: Where spark-submit, and so pyspark, takes more options for its JVM from, and where Java does.
_VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
#: What Java says of archives goes to its standard output, which may be a job's answer. In front of
#: other options: it takes back what those before it asked for.
_SILENT: Final = "-Xlog:disable -Xlog:all=error:stderr"


def archive_of(java: str, jars: Iterable[Path]) -> Path:
    """Where the archive for a Java that says `java` of itself is, and for these jars in this order,
    if there is one. Java itself refuses one whose jars have other times or sizes."""
    known = sha256(java.encode())
    for jar in jars:
        stat = jar.stat()
        known.update(f"{jar} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    # Who runs without a home has no archive, and no error.
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    return Path(cache, "distributary", f"spark-{known.hexdigest()[:16]}.jsa")


def named_in(options: str, environment: Mapping[str, str]) -> str | None:
    """Where another archive is named: a variable, or these options; None if nowhere."""
    given = {"the options": options} | {name: environment.get(name, "") for name in _VARIABLES}
    return next(
        (where for where, said in given.items() if any(name in said for name in _NAMED)), None
    )


def using(archive: Path, options: str) -> str:
    """These options of Java, and the archive, if it is there and nobody names another."""
    # Options are cut at spaces on their way. A home may be another user's, which can't be read.
    readable = os.access(archive, os.R_OK) and archive.is_file()
    if named_in(options, os.environ) or " " in str(archive) or not readable:
        return options
    return f"{_SILENT} -XX:SharedArchiveFile={archive} {options}"


def making(archive: Path, options: str) -> str:
    """These options of Java, and that it makes the archive when it ends."""
    return f"{_SILENT} -XX:ArchiveClassesAtExit={archive} {options}"
