"""`materialize` as a command: what it prints, its exit codes, and its errors in sentences."""

import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import py4j.java_gateway
import pytest
from gateway_process import PATIENCE, until
from py4j.clientserver import JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayProperty, PythonProxyPool
from spark_place import Place, first_part

from distributary.jobs.materialize.materialize import main
from distributary.jobs.session.job_options import execute
from distributary.jobs.tables.writer_lock import NAME

ROOT = Path(__file__).parents[3]


@pytest.fixture
def signals() -> Iterator[None]:
    """A job takes these for its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_no_log_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2, before any JVM starts."""
    assert main(["--home", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("Error: There is no topic_log at")


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    """Each can be pasted."""
    assert main(["--help"]) == 0
    assert "spark-submit jobs/materialize/materialize.py --home" in capsys.readouterr().out


def test_plain_spark_submit(place: Place) -> None:
    """The job brings its jars by itself, and tells its progress as JSON."""
    first_part(place)
    submit = Path(sys.executable).parent / "spark-submit"
    ran = subprocess.run(
        [
            submit,
            ROOT / "jobs" / "materialize" / "materialize.py",
            "--home",
            place.home.root,
            "--json",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1])["messages"] == 10
    assert len(place.rows("acks")) == 7


def test_a_refusal_is_one_sentence(
    place: Place, signals: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is raised in the middle of a batch, and comes back through two languages: none of their
    frames is shown."""
    first_part(place)
    notes = Path(place.places.table("acks")) / "notes.txt"
    notes.parent.mkdir()
    notes.touch()
    assert main(["--home", str(place.home.root)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"Error: {notes.parent} is where the table `acks` belongs")
    assert said.count("\n") == 1


def test_a_call_that_finds_no_java_any_more_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An error that py4j logs by the root logger, with a traceback, is raised, too."""
    assert execute(click.Command("nothing", callback=lambda: None), [], "nothing") == 0
    said = "logging.error('by py4j')", py4j.java_gateway.__file__, "exec"
    exec(compile(*said), {"logging": logging})  # noqa: S102 (a line of that file, as it were)
    logging.getLogger().error("by others")
    assert caplog.messages == ["by others"]


def test_a_connection_that_no_java_takes_any_more_says_that_it_is_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """py4j raises it as the socket did; an error of another connection is a bug."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it doesn't listen
        to = JavaParameters(port=taken.getsockname()[1])
        client = JavaClient(to, PythonParameters(), GatewayProperty(False, PythonProxyPool()))
        call = partial(client.send_command, "a call")
        assert execute(click.Command("calls", callback=call), [], "calls") == 1
        assert capsys.readouterr().err.startswith("Error: Java has gone")
        other = partial(socket.create_connection, taken.getsockname())
        with pytest.raises(ConnectionRefusedError):
            execute(click.Command("connects", callback=other), [], "connects")


def test_java_may_go(place: Place) -> None:
    """Killed by the system for its memory, as a rule: one sentence, exit 1, and it goes on."""
    first_part(place)
    home = str(place.home.root)
    command = [sys.executable, "-m", "distributary.jobs", "materialize", "--home", home]
    with subprocess.Popen(
        [*command, "--trigger", "1 hour"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as job:
        writer = place.home.spark_tables / NAME
        try:
            until(
                lambda: writer.exists() and writer.read_text().startswith(str(job.pid)),
                "the job",
                seconds=4 * PATIENCE,
            )
            children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
            for child in children:
                os.kill(int(child), signal.SIGKILL)
            said = job.communicate(timeout=4 * PATIENCE)[1]
        finally:
            job.kill()
    assert job.returncode == 1
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("Error: Java has gone")
    place.materialize()
    assert len(place.rows("acks")) == 7
