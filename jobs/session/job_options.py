"""Common parts of all jobs' command lines: places of tables, settings, exit codes."""

import logging
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import walk_tb
from typing import Any, TypeVar

import click
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from distributary.jobs.tables.lake_homes import job_home, lake_of, whole_lake
from distributary.jobs.tables.object_stores import spark_address
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.errors import DistributaryError, InvalidRequest, of_a_file
from distributary.pipeline.log_names import MAIN

#: Exit codes: done or stopped; it failed, or an audit found something; bad arguments.
DONE, FAILED, MISUSED = 0, 1, 2

#: An error of ours, in Spark's traceback of an exception of a batch or a source.
_OURS = re.compile(r"^distributary\.[\w.]+: (.+)$", re.MULTILINE)
#: A JVM's error of a disk that can't be written: the file, and why.
_DISK = re.compile(
    r"(?:IOException|FileNotFoundException|FileSystemException|AccessDeniedException): "
    r"([^\n]*(?:No space left on device|Read-only file system|Permission denied|Not a directory"
    r"|Mkdirs failed|Disk quota exceeded)[^\n]*)"
)
_JVM_GONE = (
    "Java has gone: it was killed, or it crashed (out of memory? `dmesg` says so). "
    "Start the job again: it goes on from where it was."
)

#: A JVM that doesn't answer ends within this time, if it was killed.
_ENDING_SECONDS_MAX = 10

Command = TypeVar("Command", bound=Callable[..., Any])


class JavaGone(DistributaryError):
    """The JVM has ended in the middle of a call: the job can't go on."""


_LOCATION_OPTIONS = (
    click.option("--home", help="Home of a gateway: a folder, or s3://bucket/prefix."),
    click.option("--log", help="topic_log, instead of the home's."),
    click.option("--tables", help="Folder of Spark's tables, instead of the home's."),
)
_CHECKPOINT = click.option(
    "--checkpoint", help="Folder for the query's checkpoint, instead of the home's."
)

settings_option = click.option(
    "--settings",
    "settings_file",
    type=click.Path(path_type=Path),
    help="A TOML file over the defaults of conf/jobs.toml.",
)


def json_option(says: str) -> Callable[[Command], Command]:
    """`--json`, as the argument `as_json`; `says` is its help."""
    return click.option("--json", "as_json", is_flag=True, help=says)


def location_options(command: Command) -> Command:
    """`--home`, or `--log` and `--tables`: for a job that has no query of its own."""
    for option in reversed(_LOCATION_OPTIONS):
        command = option(command)
    return command


def query_options(command: Command) -> Command:
    """As `location_options`, and `--checkpoint`."""
    return location_options(_CHECKPOINT(command))


def locations(
    home: str | None, log: str | None, tables: str | None, checkpoint: str | None, *, query: str
) -> TableLocations:
    """Return the places where a query reads and writes. Raises click.UsageError when an option is
    missing."""
    if home is not None:
        of_home = job_home(home)
        if log is None:
            _tell_main(home)
        log = log or of_home.topic_log
        tables = tables or of_home.tables
        checkpoint = checkpoint or of_home.checkpoint(query)
    if log is None or tables is None or checkpoint is None:
        raise click.UsageError("give --home, or all of --log, --tables and --checkpoint")
    said = (log, tables.rstrip("/"), checkpoint.rstrip("/"))
    return TableLocations(*(spark_address(one, os.environ) for one in said))


def folder(home: str | None, tables: str | None) -> str:
    """Return the folder of Spark's tables. Raises click.UsageError when neither is given."""
    if tables is not None:
        return spark_address(tables.rstrip("/"), os.environ)
    if home is None:
        raise click.UsageError("give --home or --tables")
    _tell_main(home)
    return job_home(home).tables


def folders(home: str | None, log: str | None, tables: str | None) -> dict[str, str]:
    """Return the folders of Spark's tables by their logs: of a lake that is given by --home alone
    those of each log that was served, `main` first; else one, whose log has no name. Raises
    click.UsageError without an option, StoreError for a placement that can't be read."""
    found = {name: one.tables for name, one in whole_lake(home, log, tables).items()}
    return found or {"": folder(home, tables)}


def log_by_log(folders: Mapping[str, str], work: Callable[[str, str], int]) -> int:
    """Do the work for each log and its folder of tables; in a home that is no lake, the only log
    has no name. Return the worst exit code. A failure of one log stops no other, and is printed
    with the log's name; that of a log without a name is raised. Raises JavaGone."""
    codes = [DONE]
    for log, where in folders.items():
        if not log:
            return work(log, where)
        try:
            with in_a_sentence():
                codes.append(work(log, where))
        except JavaGone:
            raise
        except DistributaryError as error:
            click.echo(f"Error: log {log}: {error}", err=True)
            codes.append(FAILED)
    return max(codes)


def _tell_main(home: str) -> None:
    """Tell a user who names a lake that the job reads one log alone."""
    lake = lake_of(home)
    others = [] if lake is None else [one for one in lake.placement().logs if one != MAIN]
    if lake is not None and others:
        click.echo(
            f"{home} is a lake, and this is about its log {MAIN}; another one is --home "
            f"{lake.log_home(others[0])}",
            err=True,
        )


def execute(command: click.Command, argv: Sequence[str], name: str) -> int:
    """Run a command; errors that a user can correct are one sentence. Return the exit code: the
    command's own result, if that is a number."""
    _quiet_py4j()
    try:
        called = f"distributary jobs {name}"
        code = command.main(args=list(argv), prog_name=called, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return MISUSED
    except InvalidRequest as error:
        click.echo(f"Error: {error}", err=True)
        return MISUSED
    except DistributaryError as error:
        click.echo(f"Error: {error}", err=True)
        return FAILED
    except (PySparkException, Py4JError, OSError) as error:
        said = _sentence(error)
        if said is None:
            raise
        click.echo(f"Error: {said}", err=True)
        return FAILED
    except (KeyboardInterrupt, click.Abort):  # a job that may be stopped hears the signal itself
        click.echo("Error: interrupted", err=True)
        return FAILED
    return code if isinstance(code, int) else DONE


def _quiet_py4j() -> None:
    """Silence py4j's log: it also raises its errors of a JVM that is gone."""
    logger = logging.getLogger("py4j")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    logging.getLogger().addFilter(_of_others)  # a call that was under way is logged there


def _of_others(record: logging.LogRecord) -> bool:
    """Whether a log record isn't py4j's."""
    return not _of_py4j(record.pathname)


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Raise errors of Spark or a disk as DistributaryError, for commands that aren't jobs."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        said = _sentence(error)
        if said is None:
            raise
        kind = JavaGone if said == _JVM_GONE else DistributaryError
        raise kind(said) from error


def _sentence(error: PySparkException | Py4JError | OSError) -> str | None:
    """Return the sentence for an error that a user can correct; None for a bug, which keeps its
    traceback."""
    if isinstance(error, PySparkException | Py4JJavaError):
        text = str(error)
        ours, disk = _OURS.findall(text), _DISK.findall(text)
        if ours:
            return str(ours[-1])
        if disk:
            return f"a disk says: {disk[-1].strip()}. See to the files, their rights and the room"
        if isinstance(error, Py4JJavaError):
            return _of_a_store(error)
        # A client of Spark Connect has the JVM's stack behind the sentence.
        return error.getMessage() or text
    if isinstance(error, Py4JNetworkError | ConnectionError) and _of_the_jvm(error):
        return _JVM_GONE
    if isinstance(error, Py4JError):  # py4j reports names of a JVM that is gone as missing
        return _JVM_GONE if _has_ended() else None
    return of_a_file(error) if isinstance(error, OSError) else None


def _of_a_store(error: Py4JJavaError) -> str | None:
    """Return the JVM's own words of a file that it couldn't read or write; None for another
    error."""
    cause = error.java_exception
    with suppress(Py4JError, OSError):  # a JVM that is gone says no more
        while cause is not None:
            if is_instance_of(SparkContext._gateway, cause, "java.io.IOException"):
                kind, _, said = str(cause.toString()).splitlines()[0].partition(": ")
                return (
                    f"a disk or a store says: {kind.rpartition('.')[2]}: {said}. "
                    "See to it, its address and your rights"
                )
            cause = cause.getCause()
    return None


def _of_the_jvm(error: BaseException | None) -> bool:
    """Whether the error came from a call to the JVM: py4j raises some as socket errors, and
    clean-up after them raises others."""
    while error is not None:
        frames = (frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__))
        if isinstance(error, Py4JNetworkError) or any(_of_py4j(one) for one in frames):
            return True
        error = error.__context__
    return False


def _has_ended() -> bool:
    """Whether the JVM that this process started has ended. A killed JVM closes its sockets first,
    and ends when its memory is freed."""
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is None:
        return False
    try:
        jvm.wait(_ENDING_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return False
    return True


def _of_py4j(path: str) -> bool:
    return "py4j" in Path(path).parts
