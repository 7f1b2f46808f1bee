"""The file layer itself, under small programs: it fails what it is told to, and forgets what no
one has synced. A layer that let everything through would let every crash test pass."""

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import Fault, Layer, Where
from gateway_process import until

Make = Callable[..., "Program"]
BIG = 1 << 20

#: What every program begins with: files by name, written and synced on request.
PRELUDE = """
import os, sys
os.chdir(sys.argv[1])
def put(name, data, at=0, sync=True, flags=os.O_CREAT | os.O_WRONLY):
    fd = os.open(name, flags)
    os.pwrite(fd, data, at)
    if sync:
        os.fsync(fd)
    os.close(fd)
def sync(name):
    fd = os.open(name, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
"""


class Program:
    """A home, its layer, and programs that run on it."""

    def __init__(self, folder: Path, *, shadow: bool) -> None:
        self.home = folder / "home"
        self.layer = Layer(folder / "layer", self.home, shadow=shadow)

    def start(self, text: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(text), self.home],
            env={**os.environ, **self.layer.environment},
        )

    def run(self, text: str, *, fault: Fault | None = None, code: int = 0) -> None:
        self.layer.arm(fault)
        assert self.start(text).wait() == code

    def after_power_cut(self, draw: random.Random | None = None) -> dict[str, bytes]:
        """The files that are left, by their path below the home."""
        self.layer.power_cut(draw)
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in sorted(self.home.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def program(tmp_path: Path) -> Make:
    def make(*, shadow: bool = False) -> Program:
        return Program(tmp_path, shadow=shadow)

    return make


LOST: dict[str, tuple[str, dict[str, bytes]]] = {
    "all that is synced stays": ("put('a', b'1'); sync('.')", {"a": b"1"}),
    "a name that isn't synced goes": ("put('a', b'1')", {}),
    "contents that aren't synced go": ("put('a', b'1', sync=False); sync('.')", {"a": b""}),
    "an overwrite that isn't synced is undone": (
        "put('a', b'123'); sync('.'); put('a', b'x', 1, sync=False)",
        {"a": b"123"},
    ),
    "a rename that isn't synced is undone": (
        "put('a', b'1'); sync('.'); os.rename('a', 'b')",
        {"a": b"1"},
    ),
    "a rename that is synced stays": (
        "put('a', b'1'); sync('.'); os.rename('a', 'b'); sync('.')",
        {"b": b"1"},
    ),
    "what a rename replaces comes back": (
        "put('a', b'1'); put('b', b'2'); sync('.'); os.rename('a', 'b')",
        {"a": b"1", "b": b"2"},
    ),
    "an unlink that isn't synced is undone": (
        "put('a', b'1'); sync('.'); os.unlink('a')",
        {"a": b"1"},
    ),
    "another file in the place of an unlinked one": (
        "put('a', b'1'); sync('.'); os.unlink('a'); put('a', b'2'); put('c', b'3')",
        {"a": b"1"},
    ),
    "a link is a name": ("put('a', b'1'); sync('.'); os.link('a', 'b')", {"a": b"1"}),
    "a linked draft that was synced": (
        "put('.d', b'1'); os.link('.d', 'a'); os.unlink('.d'); sync('.')",
        {"a": b"1"},
    ),
    "a folder is a name too": ("os.mkdir('x'); put('x/a', b'1'); sync('x')", {}),
    "a folder synced in its own": (
        "os.mkdir('x'); put('x/a', b'1'); sync('x'); sync('.')",
        {"x/a": b"1"},
    ),
    "a folder whose names aren't synced": ("os.mkdir('x'); put('x/a', b'1'); sync('.')", {}),
    "a cut that isn't synced is undone": (
        "put('a', b'123'); sync('.'); os.truncate('a', 1)",
        {"a": b"123"},
    ),
    "only what was written since the sync goes in a big file": (
        f"""
        put('a', bytes({BIG})); sync('.')
        put('a', b'kept', 500_000); put('a', b'gone', 700_000, sync=False)
        """,
        {"a": bytes(500_000) + b"kept" + bytes(BIG - 500_004)},
    ),
    "mapped memory is seen when the file is synced": (
        """
        import mmap
        put('a', bytes(4096)); sync('.')
        fd = os.open('a', os.O_RDWR); m = mmap.mmap(fd, 4096)
        m[:4] = b'kept'; os.fsync(fd); m[:4] = b'gone'
        """,
        {"a": b"kept" + bytes(4092)},
    ),
}


@pytest.mark.parametrize("kind", LOST)
def test_a_power_cut_leaves_what_was_synced(program: Make, kind: str) -> None:
    """Contents as of their file's last sync, names as of their folder's; strictly."""
    text, left = LOST[kind]
    powered = program(shadow=True)
    powered.run(text)
    assert powered.after_power_cut() == left


def test_what_a_killed_process_left_unsynced_is_lost_with_the_power(program: Make) -> None:
    """The next process sees it, and relies on it in vain."""
    powered = program(shadow=True)
    powered.run("put('a', b'1'); sync('.'); put('a', b'2', sync=False)")
    powered.run("assert open('a').read() == '2'; put('b', b'3'); sync('.')")
    assert powered.after_power_cut() == {"a": b"1", "b": b"3"}


def test_by_luck_more_is_left(tmp_path: Path) -> None:
    """With a draw each page and each change of a name reaches the disk or doesn't; nothing else
    ever stands there, and a renamed file has one name."""
    seen = set()
    for seed in range(12):
        powered = Program(tmp_path / f"{seed}", shadow=True)
        powered.run(
            """
            put('a', b'1' * 8192); put('x', b''); sync('.')
            put('a', b'2' * 8192, sync=False); os.rename('x', 'y'); put('b', b'3')
            """
        )
        left = powered.after_power_cut(random.Random(seed))
        assert {left["a"][:4096], left["a"][4096:]} <= {b"1" * 4096, b"2" * 4096}
        assert ("x" in left) != ("y" in left)
        assert left.keys() <= {"a", "b", "x", "y"}
        seen.add((left["a"][:1], left["a"][-1:], "x" in left, "b" in left))
    assert len(seen) > 4


def test_a_sync_that_failed_has_forgotten(program: Make) -> None:
    """A second one says yes, and the data is gone all the same."""
    powered = program(shadow=True)
    powered.run(f"put('a', bytes({BIG})); sync('.')")
    fault = Fault(Where("fsync", "a", "before"), "errno")
    text = """
        fd = os.open('a', os.O_WRONLY); os.pwrite(fd, b'gone', 0)
        try:
            os.fsync(fd)
        except OSError as error:
            assert error.errno == 5
        else:
            sys.exit(1)
        os.fsync(fd)
        """
    powered.run(text, fault=fault)
    assert powered.after_power_cut() == {"a": bytes(BIG)}


@pytest.mark.parametrize(("when", "left"), [("before", []), ("after", ["a"])])
def test_a_kill_comes_before_or_after_its_call(program: Make, when: str, left: list[str]) -> None:
    """And nothing after it."""
    fault = Fault(Where("create", "a", when), "kill")
    killed = program()
    killed.run("put('a', b'1'); put('b', b'1')", fault=fault, code=-signal.SIGKILL)
    assert [path.name for path in killed.home.iterdir()] == left
    assert killed.layer.fired == 1


def test_a_rule_counts(program: Make) -> None:
    """It acts at the n-th match, as often in a row as it is told, and only behind its `since`."""
    where = Where("write", "a*", "before", ("create", "c"))
    text = """
        done = []
        for name in ('a1', 'c', 'b', 'a2', 'a3', 'a4', 'a5'):
            try:
                put(name, b'1')
                done.append(name)
            except OSError as error:
                assert error.errno == 28
        print(done)
        sys.exit(done != ['a1', 'c', 'b', 'a2', 'a5'])
        """
    told = program()
    told.run(text, fault=Fault(where, "errno", 2, 2, "ENOSPC"))
    assert told.layer.fired == 2


def test_a_torn_write_is_half_of_it(program: Make) -> None:
    """Then the process is gone."""
    torn = program()
    fault = Fault(Where("write", "a", "before"), "short")
    torn.run("put('a', b'12345678', 2)", fault=fault, code=-signal.SIGKILL)
    assert (torn.home / "a").read_bytes() == b"\0\0001234"


def test_a_paused_process_goes_on_when_it_is_told(program: Make) -> None:
    """It stands between two calls; a plan can come while it runs."""
    paused = program()
    process = paused.start("while not os.path.exists('go'): pass\nput('a', b'1')")
    paused.layer.arm(Fault(Where("create", "a", "after"), "pause"))
    (paused.home / "go").touch()
    until(lambda: "T" in Path(f"/proc/{process.pid}/stat").read_text().split()[2], "a pause")
    assert (paused.home / "a").read_bytes() == b""
    process.send_signal(signal.SIGCONT)
    assert process.wait() == 0
    assert (paused.home / "a").read_bytes() == b"1"


def test_calls_are_written_down(program: Make) -> None:
    """The layer records calls below the home that change files, with their results."""
    noted = program()
    noted.run("put('a', b'1'); open('/dev/null', 'w').write('x'); os.rename('a', 'b')")
    assert [(call.name, call.path, call.result >= 0) for call in noted.layer.calls()] == [
        *(("create", "a", True), ("write", "a", True), ("fsync", "a", True)),
        ("rename", "b", True),
    ]


def test_a_program_within_others_is_meant(tmp_path: Path) -> None:
    """Of a process and what it starts, only those that run a file of that name are seen."""
    home = tmp_path / "home"
    layer = Layer(tmp_path / "layer", home, program="mkdir")
    layer.arm(Fault(Where("mkdir", "*", "before"), "kill", 3))
    starts = "import os, sys; os.chdir(sys.argv[1]); os.mkdir('own'); sys.exit(os.system('{}'))"
    names = "mkdir a b c d || touch killed"
    command = [*layer.command, sys.executable, "-c", starts.format(names), str(home)]
    assert subprocess.run(command, check=False).returncode == 0
    assert sorted(path.name for path in home.iterdir()) == ["a", "b", "killed", "own"]
    assert [call.path for call in layer.calls() if call.name == "mkdir"] == ["a", "b"]


def test_a_power_cut_is_another_boot(program: Make) -> None:
    """The process reads the layer's boot id; a new one after each cut, the same one after kills."""
    powered = program(shadow=True)
    text = "put('boot', open('/proc/sys/kernel/random/boot_id', 'rb').read()); sync('.')"
    seen = []
    for _ in range(2):
        for _ in range(2):
            powered.run(text)
            seen.append((powered.home / "boot").read_bytes())
        powered.layer.power_cut()
    assert seen[0] == seen[1] != seen[2] == seen[3]
