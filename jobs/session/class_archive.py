"""Spark's classes in Java's own form (CDS), for sessions that begin on this machine.

A JVM maps classes from such an archive instead of unpacking, reading and checking each of them: a
session and its first queries load 26,000 classes. `distributary jobs prepare` makes an archive.

Rule: an archive is for one Java and one list of jars, and its name has a hash of them. Where none
      fits, where Java rejects it, or where the user has named another one, Java starts as without
      it, and prints nothing.
"""

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

#: Java's options that name an archive to use or to make.
_NAMED: Final = ("SharedArchiveFile", "ArchiveClassesAtExit", "SharedClassListFile", "Xshare")
#: Variables from which spark-submit (and so pyspark) and Java take more options.
_VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
#: Java prints warnings about archives to its standard output, which may be a job's answer. It goes
#: before other options, as it cancels log options before it.
_SILENT: Final = "-Xlog:disable -Xlog:all=error:stderr"

#: Names of archives, and the most that stay, 200 MB each: other environments of this user, or the
#: one before an upgrade, may still use theirs.
_NAME: Final = re.compile(r"spark-[0-9a-f]{16}\.jsa")
ARCHIVES_MAX: Final = 3


def archive_of(java: str, jars: Iterable[Path]) -> Path:
    """Return the path of the archive, which need not exist, for a Java whose `-version` prints
    `java`, and for these jars in this order. Java rejects one whose jars have other times or
    sizes."""
    known = sha256(java.encode())
    for jar in jars:
        stat = jar.stat()
        known.update(f"{jar} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    # A process without a home directory has no archive, and gets no error.
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    return Path(cache, "distributary", f"spark-{known.hexdigest()[:16]}.jsa")


def remove_older(archive: Path) -> None:
    """Remove archives beside this one, which was just made, but for the ARCHIVES_MAX newest. A JVM
    that has mapped one goes on with it."""
    others: list[tuple[float, Path]] = []
    for one in archive.parent.iterdir():
        with suppress(OSError):  # another run removes them, too
            if one != archive and _NAME.fullmatch(one.name) and one.is_file():
                others.append((one.stat().st_mtime, one))
    for _, one in sorted(others, reverse=True)[ARCHIVES_MAX - 1 :]:
        with suppress(OSError):
            one.unlink()


def named_in(options: str, environment: Mapping[str, str]) -> str | None:
    """Return the variable that names another archive, or "the options"; None if there is none."""
    given = {"the options": options} | {name: environment.get(name, "") for name in _VARIABLES}
    return next(
        (where for where, said in given.items() if any(name in said for name in _NAMED)), None
    )


def using(archive: Path, options: str) -> str:
    """Return these options of Java with the archive, if it exists and no other one is named."""
    # Options are split at spaces on their way. A home may be another user's, and unreadable.
    readable = os.access(archive, os.R_OK) and archive.is_file()
    if named_in(options, os.environ) or " " in str(archive) or not readable:
        return options
    return f"{_SILENT} -XX:SharedArchiveFile={archive} {options}"


def making(archive: Path, options: str) -> str:
    """Return these options of Java with the one that makes the archive at its end."""
    return f"{_SILENT} -XX:ArchiveClassesAtExit={archive} {options}"
