"""`pytest --forks`: each test runs once, a file in one process; one that dies is a failure."""

import re
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parent / "support"
INI = f"[pytest]\npythonpath = {SUPPORT}\naddopts = -p no:cacheprovider -ra\n"
CONFTEST = """
import pytest
from forks import Forks

def pytest_addoption(parser):
    parser.addoption("--forks", type=int, default=0)

def pytest_configure(config):
    config.pluginmanager.register(Forks(config.getoption("forks")))
"""
FILE = """
import os, signal
import pytest

@pytest.fixture(scope="session")
def place(tmp_path_factory):
    yield tmp_path_factory.mktemp("session")
    print("session ends")

@pytest.mark.parametrize("nth", range(5))
def test_one(nth, place, capfd):
    assert place.is_dir()
    with open(os.environ["RUNS"], "a") as runs:
        runs.write(f"{__name__} {nth} {os.getpid()}\\n")
    print("said")
    assert capfd.readouterr().out == "said\\n"
    if (__name__, nth) == ("test_b", 2):
        os.kill(os.getpid(), signal.SIGKILL)
    assert (__name__, nth) != ("test_c", 4), "fails"
"""


def test_each_test_runs_once_and_a_death_is_a_failure(tmp_path: Path) -> None:
    """What the dead process had not begun, another one does; a failure is told with its text."""
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text(FILE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--forks", "2"],
        cwd=tmp_path,
        env={"RUNS": str(tmp_path / "runs"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^=+ 2 failed, 13 passed in", done.stdout, re.MULTILINE), done.stdout
    assert "FAILED test_b.py::test_one[2] - its process has ended, with code -9" in done.stdout
    assert "AssertionError: fails" in done.stdout
    runs = [line.split() for line in (tmp_path / "runs").read_text().splitlines()]
    assert sorted((file, int(nth)) for file, nth, _ in runs) == [
        (f"test_{name}", nth) for name in "abc" for nth in range(5)
    ]
    by_file = {
        name: {pid for file, _, pid in runs if file == name} for name in ("test_a", "test_b")
    }
    assert (len(by_file["test_a"]), len(by_file["test_b"])) == (1, 2)
