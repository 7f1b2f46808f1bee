"""The guide for those who run the jobs and ask the tables, done as it is written.

Commands run in this process, as each would start a JVM of its own; so do the programs.
"""

import io
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from command_lines import commands_of, is_ours
from deltalake import DeltaTable
from doc_blocks import blocks
from gateway_process import PATIENCE, Gateway, free_port, until
from proton import Message
from proton.utils import BlockingConnection
from pyspark.sql import SparkSession

from distributary.ingest.cli.main import cli
from distributary.jobs.materialize.batch_progress import Progress
from distributary.jobs.session.job_names import JOBS
from distributary.pipeline.tables.home.home import Home

pytestmark = pytest.mark.timeout(900)

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "spark.md"
#: Commits come soon: the guide says that a second is enough.
SETTINGS = {"commit": {"interval_ms": 50}}
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Reader:
    """Types what the guide says, one block after the other, and keeps what is shown."""

    def __init__(self, folder: Path, gateway: Gateway) -> None:
        self.metrics = free_port()
        self.scraped = ""
        self._known: dict[str, object] = {}
        self._said = {
            "127.0.0.1:5672": f"127.0.0.1:{gateway.port}",
            "127.0.0.1:9101": f"127.0.0.1:{self.metrics}",
            "build/": f"{folder}/build/",
            "wheel dist": f"wheel {folder}/dist",
        }

    def does(self, kind: str, block: str) -> str:
        """The output of a block. Its commands end well, or the test fails."""
        for said, here in self._said.items():
            block = block.replace(said, here)
        shown = io.StringIO()
        with redirect_stdout(shown), redirect_stderr(shown), undisturbed():
            if kind == "python":
                exec(compile(block, str(GUIDE), "exec"), self._known)  # noqa: S102
            else:
                for command in commands_of(block):
                    self.types(command, shown)
        return shown.getvalue()

    def forgets(self) -> None:
        """End objects that programs left open with this test, and not with Python."""
        self._known.clear()

    def types(self, command: list[str], shown: io.StringIO) -> None:
        """One command, in this process."""
        name, *arguments = command
        assert is_ours(command), command
        if "--trigger" in arguments:
            threading.Thread(target=self._stop_when_it_tells, daemon=True).start()
        try:
            code = cli.main(arguments, prog_name="distributary", standalone_mode=False) or 0
        except SystemExit as ended:
            code = ended.code or 0
        assert code == 0, (name, arguments, shown.getvalue())

    def _stop_when_it_tells(self) -> None:
        """Give it something to do, look at its metrics, as Prometheus does, and end it."""
        connection = BlockingConnection(self._said["127.0.0.1:5672"], timeout=PATIENCE)
        connection.create_sender("elsewhere").send(Message("?", durable=True))
        connection.close()

        def scraped() -> bool:
            with suppress(OSError):
                page = urlopen(f"http://127.0.0.1:{self.metrics}/metrics")
                self.scraped = page.read().decode()
            return "distributary_job_batch_ended" in self.scraped

        with suppress(AssertionError):  # what it lacks is seen in what was scraped
            until(scraped, "the metrics of a batch", 2 * PATIENCE)
        # Before the job hears it the signal would end all tests of this process.
        until(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, "it hears signals")
        os.kill(os.getpid(), signal.SIGTERM)


def logged(home: Home) -> bool:
    """Whether the log has all that the guide's first program has done."""
    columns = ["record", "outcome", "sequences"]
    rows = DeltaTable(home.topic_log).to_pyarrow_table(columns=columns).to_pylist()
    messages = sum(row["record"] == "message" for row in rows)
    accepted = sum(len(row["sequences"]) for row in rows if row["outcome"] == "accepted")
    return (messages, accepted) == (500, 300)


def settled(home: Home) -> int:
    """How many settlements the log has."""
    rows = DeltaTable(home.topic_log).to_pyarrow_table(columns=["outcome", "sequences"])
    return sum(row["outcome"] == "accepted" for row in rows.to_pylist())


@contextmanager
def undisturbed() -> Iterator[None]:
    """Restore the settings of this process that a job changes, when it has ended."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [(number, signal.getsignal(number)) for number in numbers]
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        for number, handler in before:
            signal.signal(number, handler)


@pytest.mark.usefixtures("spark")
def test_each_block_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and programs, from the first to the last, on a gateway of their own."""
    with Gateway(tmp_path / "gateway", SETTINGS) as gateway:
        monkeypatch.setenv("DISTRIBUTARY_GATEWAY", f"127.0.0.1:{gateway.port}")
        monkeypatch.setenv("COLUMNS", "120")
        (tmp_path / "build").mkdir()
        (tmp_path / "build" / "home").symlink_to(gateway.home)
        reader = Reader(tmp_path, gateway)
        shown = []
        for kind, block in BLOCK.findall(GUIDE.read_text()):
            shown.append(reader.does(kind, block))
            if "def apply" in block:
                until(partial(logged, Home(gateway.home)), "all of it is in the log")
        everything = "\n".join(shown)
        reader.forgets()
        gateway.stop()
    for fact in (
        r"500 messages, \d+ acks, 2 subscription events",
        r"\|global/billing\| +300\| +300\|",
        r"\|global/archive\| +500\|",
        r"\| +BE\| +8850\|",
        r"nobody connected",
        r"50 +settled; they come again",
        r"200 +owed; they come anyway",
        r"100 messages match",
        r"global/belgium is owed what lies from sequence 0 on",
        r"^500$",
        r"distributary_jobs-.*\.whl",
    ):
        assert re.search(fact, everything, re.MULTILINE), (fact, everything)
    assert (tmp_path / "build" / "belgium" / "_delta_log").is_dir()
    for gauge in re.findall(r"`(distributary_job_\w+)`", GUIDE.read_text()):
        assert gauge in reader.scraped


@pytest.mark.usefixtures("spark")
def test_the_readme_up_to_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two messages one is taken and one is owed, as rows. The job that goes on for ever and the
    audit are the guide's, too."""
    with Gateway(tmp_path / "gateway", SETTINGS) as gateway:
        monkeypatch.setenv("DISTRIBUTARY_GATEWAY", f"127.0.0.1:{gateway.port}")
        monkeypatch.setenv("COLUMNS", "120")
        (tmp_path / "build").mkdir()
        (tmp_path / "build" / "home").symlink_to(gateway.home)
        reader = Reader(tmp_path, gateway)
        shell, job, look = (
            next(block for block in blocks("README.md") if text in block.text)
            for text in ("consume orders --durable", "jobs materialize", "stuck_summary")
        )
        reader.does("sh", "".join(shell.text.splitlines(keepends=True)[:3]))
        until(lambda: settled(Home(gateway.home)) == 1, "the settlement in the log")
        reader.does("sh", job.text.splitlines()[0])
        shown = reader.does("python", look.text)
        reader.forgets()
        gateway.stop()
    assert re.search(r"\|container/distributary-cli/billing\|1 +\|1 +\|", shown), shown
    assert re.search(r"\|container/distributary-cli/billing\|not settled\|1 +\|", shown), shown


def test_what_there_is_stands_in_the_guide() -> None:
    """Every job, view, gauge and what a line of progress says."""
    text = GUIDE.read_text()
    assert all(f"distributary jobs {name}" in text for name in JOBS)
    for field in ("messages", "acks", "seconds", "log_version", "lag_versions", "lag_seconds"):
        assert field in Progress.__dataclass_fields__
        assert f"`{field}`" in text


@pytest.fixture(scope="module", autouse=True)
def session_there(spark: SparkSession) -> SparkSession:
    """The one that commands and programs take."""
    return spark
