"""Spark's jobs over a home, each a process of its own: `materialize`, run to its end or killed on
the way, and `audit`."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from deltalake import DeltaTable
from faults import Layer
from gateway_process import Gateway
from spark_lender import lent

TABLES = ("messages", "acks", "subscriptions", "schemas", "cursors", "topics/rain", "rejected")
#: Seconds that a run may take; half a minute on an idle machine, most of it for the JVM.
SECONDS_MAX = 600
#: Seconds after which a run that hasn't met its kill is killed.
FIRST_SECONDS = 30
#: Calls that change a file, or try to, of a run that makes the tables and fills them.
CALLS = 500
#: Characters of what a failed job said that its failure shows.
WORDS_MAX = 10_000
#: Columns that say when or in which version a row was written, not what it says.
_OF_THE_WRITER = {"updated_at", "log_version"}


def _command(home: Path, elsewhere: Path | None, layer: Layer | None) -> list[str]:
    under = layer.command if layer is not None else ()
    command = [*under, *Gateway.COMMAND, "jobs", "materialize", "--home", str(home), "--json"]
    if elsewhere is not None:
        command += ["--tables", str(elsewhere), "--checkpoint", str(elsewhere / "checkpoint")]
    return command


@contextmanager
def job(
    home: Path, elsewhere: Path | None = None, *, layer: Layer | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A job that runs; at the end of the block it and its JVM are killed, if they still are.

    `layer` is one over the program `java`.
    """
    with _process(home, _command(home, elsewhere, layer), os.environ) as process:
        yield process


@contextmanager
def _process(
    home: Path, command: list[str], environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    with home.with_name("job.log").open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, start_new_session=True
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def run(home: Path, elsewhere: Path | None = None) -> None:
    """Run the job until it has all of the log; into other tables, if they are named."""
    with _process(home, *lent(_command(home, elsewhere, None), os.environ)) as process:
        code = process.wait(SECONDS_MAX)
    assert code == 0, f"the job ended with exit code {code}:\n{_said(home)}"


def audit(home: Path) -> None:
    """Every guarantee holds by what the tables say."""
    command = [*Gateway.COMMAND, "jobs", "audit", "--home", str(home)]
    with _process(home, *lent(command, os.environ)) as process:
        code = process.wait(SECONDS_MAX)
    assert code == 0, f"the audit ended with exit code {code}:\n{_said(home)}"


def _said(home: Path) -> str:
    """The end of what the jobs said, without the JVM's frames: there are hundreds to a cause."""
    lines = home.with_name("job.log").read_text(errors="replace").splitlines()
    return "\n".join(line for line in lines if not line.startswith("\tat "))[-WORDS_MAX:]


def rows(path: Path) -> list[str]:
    """The rows of a table in some order of their own, without what only the writer knows."""
    table = DeltaTable(path).to_pyarrow_table()
    names = sorted(set(table.column_names) - _OF_THE_WRITER)
    return sorted(json.dumps(row, default=repr) for row in table.select(names).to_pylist())
