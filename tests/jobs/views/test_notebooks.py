"""The notebooks run from their first cell to their last and show what they say.

They share one kernel; each begins with an empty namespace. `REWRITE=1` keeps the
output of this run in the files; with `DISTRIBUTARY_HOME` those that look at a home look at that one
(`make demo` leaves one in build/demo).
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from rich.console import Console
from spark_lender import lender

from examples.demo.play import play, wait_for_commits
from examples.demo.stage import stage

pytestmark = pytest.mark.timeout(900)

NOTEBOOKS = Path(__file__).parents[3] / "docs" / "notebooks"
SUPPORT = Path(__file__).parents[2] / "support"
#: Seconds that one cell may take; a machine shared by many is slow at times.
PATIENCE = 600
FLIGHTS = 2_000

#: What is run in front of each notebook.
PREFACE = """
%reset -f
import os
os.environ["DISTRIBUTARY_HOME"] = {home!r}
from distributary.jobs.session.session import session
"""

#: What is run in a new kernel: its session is borrowed, as those of the tests are.
BEGIN = """
import sys
sys.path.append({support!r})
from spark_lender import borrow
borrow({lent!r})
"""

#: The tables of a home, made by the session that is there.
MATERIALIZE = """
from distributary.jobs.materialize.materialize import once
once(session(), {home!r})
"""


class Run:
    """A notebook that was run: what its cells show, without the preface."""

    def __init__(self, notebook: nbformat.NotebookNode) -> None:
        self._cells = [cell for cell in notebook.cells if cell.cell_type == "code"]

    def text(self, number: int) -> str:
        """The text that a code cell shows."""
        outputs = self._cells[number].outputs
        shown = (one.get("data", {}).get("text/plain") or one.get("text", "") for one in outputs)
        return "".join(shown)

    def table(self, number: int) -> list[dict[str, str]]:
        """The rows of the table that a code cell shows."""
        [html] = [one.data["text/html"] for one in self._cells[number].outputs if "data" in one]
        head, *rows = re.findall(r"<tr.*?>(.*?)</tr>", html, re.DOTALL)
        columns = [name for name in re.findall(r"<th>(.*?)</th>", head) if name]
        cells = [re.findall(r"<td>(.*?)</td>", row) for row in rows]
        return [dict(zip(columns, row, strict=True)) for row in cells if row]

    @property
    def pictures(self) -> int:
        outputs = [output for cell in self._cells for output in cell.outputs]
        return sum("image/png" in output.get("data", {}) for output in outputs)


class Kernel:
    """One kernel for all notebooks."""

    def __init__(self, home: Path, lent: str) -> None:
        self.home = home
        self._begin = BEGIN.format(support=str(SUPPORT), lent=lent)
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(cwd=str(NOTEBOOKS))
        self._materialized = bool(os.environ.get("DISTRIBUTARY_HOME"))

    def run(self, name: str, *, looks_at_home: bool = False) -> Run:
        file = NOTEBOOKS / f"{name}.ipynb"
        notebook = nbformat.read(file, as_version=4)
        preface = PREFACE.format(home=str(self.home)) + self._begin
        self._begin = ""
        if looks_at_home and not self._materialized:
            preface += MATERIALIZE.format(home=str(self.home))
            self._materialized = True
        notebook.cells.insert(0, nbformat.v4.new_code_cell(preface))
        client = NotebookClient(notebook, km=self._manager, timeout=PATIENCE)
        try:
            client.execute()
        finally:
            if client.kc is not None:
                client.kc.stop_channels()
        del notebook.cells[0]
        if os.environ.get("REWRITE"):
            keep(notebook, file)
        return Run(notebook)

    def stop(self) -> None:
        self._manager.shutdown_kernel(now=True)


def keep(notebook: nbformat.NotebookNode, file: Path) -> None:
    """Write a notebook with its output, without what is different each time."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, 1):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
    nbformat.write(notebook, file)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with flights that four workers took, of which one was lost."""
    if given := os.environ.get("DISTRIBUTARY_HOME"):
        return Path(given).absolute()
    root = tmp_path_factory.mktemp("notebooks") / "home"
    root.mkdir()
    with stage(root) as made:
        gateway = made.start_gateway()
        play(made, gateway, FLIGHTS, Console(quiet=True))
        wait_for_commits(gateway)
    return root


@pytest.fixture(scope="module")
def kernel(home: Path) -> Iterator[Kernel]:
    made = Kernel(home, lender().lend())
    yield made
    made.stop()


def test_subscription_state(kernel: Kernel) -> None:
    """Cursors, what is owed, a picture of the backlog, and the state at the last versions."""
    run = kernel.run("subscription_state", looks_at_home=True)
    subscriptions = [row["subscription"] for row in run.table(1)]
    assert subscriptions == ["global/auditors", "global/dispatchers"]
    assert {row["subscription"] for row in run.table(2)} == {"global/auditors"}
    assert [row["event"] for row in run.table(4)] == ["created", "created"]
    accepted = [int(row["accepted"]) for row in run.table(5)]
    assert accepted == sorted(accepted)
    assert accepted[-1] == int(run.table(1)[1]["accepted"])
    assert run.table(5)[-1]["pending"] == "0"
    assert run.pictures == 1


def test_who_got_what(kernel: Kernel) -> None:
    """Four workers and their shares, the follower of the lost one, one message's story."""
    run = kernel.run("who_got_what", looks_at_home=True)
    workers = run.table(1)
    assert [row["consumer"] for row in workers] == [
        f"worker-{number}/dispatchers|global" for number in (1, 2, 3, 4)
    ]
    lost = [int(row["lost"]) for row in workers]
    assert [count > 0 for count in lost] == [False, True, False, False]
    took_over = run.table(2)
    assert {row["lost_by"] for row in took_over} == {"worker-2/dispatchers|global"}
    assert sum(int(row["messages"]) for row in took_over) == lost[1]
    assert [row["outcome"] for row in run.table(3)] == ["lost", "accepted"]
    assert run.pictures == 1


def test_why_is_it_stuck(kernel: Kernel) -> None:
    """Each of four subscriptions has its reason, and another one when something was done."""
    run = kernel.run("why_is_it_stuck")
    assert {(row["subscription"], row["reason"]): int(row["messages"]) for row in run.table(3)} == {
        ("global/archive", "nobody connected"): 500,
        ("global/archive", "delayed"): 1,
        ("global/auditors", "paused"): 500,
        ("global/auditors", "delayed"): 1,
        ("global/billing", "poison"): 1,
        ("global/billing", "delayed"): 1,
        ("global/dispatchers", "no credit"): 400,
        ("global/dispatchers", "in flight"): 40,
        ("global/dispatchers", "delayed"): 1,
    }
    one = {(row["subscription"], row["message_id"]): row for row in run.table(5)}
    assert one["global/billing", "flight-0"]["failures"] == "2"
    assert one["global/dispatchers", "flight-70"]["consumer"] == "worker-1/dispatchers|global"
    assert "not settled" in {row["reason"] for row in run.table(6)}
    assert {row["reason"] for row in run.table(7)} == {"nobody connected", "delayed"}
    assert run.pictures == 1


def test_replay_and_backfill(kernel: Kernel) -> None:
    """A rewind brings what was foretold, the state of before stays known, and a subscription that
    begins in the past gets each message once, old and new."""
    run = kernel.run("replay_and_backfill")
    [before] = run.table(1)
    assert (before["floor"], before["pending"], before["accepted"]) == ("800", "200", "800")
    foretold = json.loads(run.text(2))
    assert (foretold["again"], foretold["anyway"]) == (400, 200)
    assert "['flight-400', 'flight-401', 'flight-402']" in run.text(3)
    then, now = run.table(4)
    assert then == before
    assert (now["began"], now["floor"], now["pending"]) == ("rewound", "900", "100")
    assert [row["messages"] for row in run.table(5)] == ["500", "400"]
    matches = json.loads(run.text(7).splitlines()[0])["matches"]
    made = json.loads(run.text(8).splitlines()[0])
    assert (made["floor"], made["hint_to"], made["matches"]) == (0, 1_000, matches)
    assert "each once: True, in order: True" in run.text(9)
    assert f"\n{matches} of them" in run.text(9)
    assert run.pictures == 1


def test_spark_as_a_subscriber(kernel: Kernel) -> None:
    """A query and a worker share a subscription; what the query writes is there once, although one
    of its batches ran twice."""
    run = kernel.run("spark_as_a_subscriber")
    assert len(run.table(2)) == 5
    assert run.text(3).strip() == "True"
    [counts] = run.table(4)
    assert (counts["rows"], counts["messages"], counts["worker"]) == ("1600", "1600", "400")
    who = {row["consumer"]: int(row["count"]) for row in run.table(5) if row["final"] == "True"}
    assert sorted(who.values()) == [400, 1_600]
    assert "0 messages are owed" in run.text(6)


def test_typed_tables(kernel: Kernel) -> None:
    """A schema that was inferred makes a table; what doesn't fit is set aside with its reason, and
    fits when the schema was mended; the audit finds nothing."""
    run = kernel.run("typed_tables")
    assert set(json.loads(run.text(1))["required"]) == {"amount", "customer", "id", "placed_at"}
    kinds = {row["col_name"]: row["data_type"] for row in run.table(3)}
    assert kinds == {
        "amount": "double",
        "customer": "string",
        "id": "bigint",
        "placed_at": "timestamp",
    }
    assert sum(int(row["orders"]) for row in run.table(4)) == 200
    [odd] = run.table(5)
    assert (odd["schema_version"], odd["messages"]) == ("1", "30")
    assert "customer" in odd["reason"]
    assert [(row["version"], row["guest"], row["orders"]) for row in run.table(7)] == [
        ("1", "False", "200"),
        ("2", "True", "30"),
    ]
    assert run.text(8).strip() == "260 messages of topics with a schema, 0 violations"


@pytest.mark.parametrize("file", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda file: file.stem)
def test_kept_output(file: Path) -> None:
    """Every notebook keeps the output of a whole run, and nothing of the machine that made it."""
    notebook = nbformat.read(file, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert any(output for cell in cells for output in cell.outputs)
    shown = " ".join(
        str(output) for cell in cells for output in cell.outputs if "png" not in output
    )
    assert not re.search(r"Traceback|/home/|/tmp/|/work/|/root/", shown)
