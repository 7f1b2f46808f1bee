"""A home that can't be made, read or written is one sentence, for each command that takes one."""

import ctypes
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import fork_server
import pytest
from disk import SmallDisk
from fork_server import ForkServer
from gateway_process import Gateway, free_port, toml

#: Failed, because of a disk or of what lies there; or the argument can't be meant.
FAILED, MISUSED = 1, 2
#: The rights by which root passes over those of files, as Linux numbers them.
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24

COMMANDS = {
    "serve": ("serve", "--listen", "127.0.0.1:0"),
    "standby": ("serve", "--listen", "127.0.0.1:0", "--standby"),
    "info": ("info",),
    "verify": ("verify",),
    "repair": ("verify", "--repair"),
    "demo": ("--flights", "1000"),
    "materialize": ("jobs", "materialize"),
    "upkeep": ("jobs", "upkeep"),
    "audit": ("jobs", "audit"),
    "backfill": ("jobs", "backfill", "global/s", "--topic", "t", "--since", "1h"),
    "rewind": ("subscription", "rewind", "global/s", "--to", "0", "--dry-run"),
    "stuck": ("subscription", "stuck", "global/s"),
    "drain": (
        *("jobs", "drain", "--gateway", "127.0.0.1:1", "--subscription", "global/s"),
        *("--to", "s3a://lake/orders"),
    ),
    "wheel": ("jobs", "wheel"),
}
#: What isn't a command of `distributary`: the module that is run, and what it imports.
PROGRAMS = {"demo": ("examples.demo", ("examples.demo.demo",))}
#: How the place is named where it isn't `--home`.
NAMED = {"drain": ("--checkpoint",), "wheel": ()}
#: Those that make or write a home; the others read one.
WRITING = ("serve", "standby")
#: Those that make a folder or write into one that is no home.
MAKING = ("drain", "wheel")


def no_override() -> None:
    """In the child: rights of files count, also for root."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


@cache
def mortal(program: str, modules: tuple[str, ...]) -> ForkServer:
    """A fork server of processes for which rights of files count."""
    return ForkServer(modules, before=no_override, program=program)


@dataclass(frozen=True)
class Said:
    code: int
    text: str


def said(
    command: str, home: Path | str, *, front: tuple[str, ...] = (), config: Path | None = None
) -> Said:
    """The output of a command about a home: no traceback, and one sentence that names the place."""
    named = NAMED.get(command, ("--home",))
    words = [*COMMANDS[command], *named, str(home), *(["--config", str(config)] if config else ())]
    if front:
        done = subprocess.run(
            [*front, *Gateway.COMMAND, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            stdin=subprocess.DEVNULL,
            preexec_fn=no_override,
        )
    else:
        server = mortal(*PROGRAMS.get(command, ("", fork_server.COMMANDS)))
        done = server.run(*words, timeout=120)
    text = done.stderr + done.stdout
    assert "Traceback" not in text, text
    lines = [one for one in done.stderr.splitlines() if re.match(r"distributary: |Error: ", one)]
    assert len(lines) == 1, text
    return Said(done.returncode, lines[0])


def dangling(folder: Path) -> Path:
    (folder / "home").symlink_to(folder / "nowhere" / "else")
    return folder / "home"


def a_loop(folder: Path) -> Path:
    (folder / "home").symlink_to(folder / "home")
    return folder / "home"


def a_file(folder: Path) -> Path:
    (folder / "home").write_text("no folder")
    return folder / "home"


def under_a_file(folder: Path) -> Path:
    return a_file(folder) / "deeper"


def in_proc(_folder: Path) -> Path:
    return Path("/proc/home")


def too_long(folder: Path) -> Path:
    return folder / ("x" * 300)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "place",
    [dangling, a_loop, a_file, under_a_file, in_proc, too_long],
    ids=lambda one: one.__name__,
)
def test_what_can_be_no_folder_is_a_wrong_argument(
    tmp_path: Path, command: str, place: Callable[[Path], Path]
) -> None:
    """Commands that would make it, and those that would read it, end with exit code 2 and name the
    path."""
    home = place(tmp_path)
    found = said(command, home)
    assert str(home) in found.text
    on_disk = place is too_long  # the system says it, not we
    assert found.code == MISUSED or (on_disk and found.code == FAILED), found


@pytest.mark.parametrize(
    ("mode", "command"),
    [
        *((0o000, one) for one in COMMANDS if one != "standby"),
        *((0o500, one) for one in (*WRITING, *MAKING, "repair")),
    ],
)
def test_a_home_without_rights_is_one_sentence(tmp_path: Path, mode: int, command: str) -> None:
    """To look into it, to write into it; it is a gateway's own otherwise."""
    home = tmp_path / "home"
    for one in ("tables/topic_log", "journal"):
        (home / one).mkdir(parents=True)
    home.chmod(mode)
    try:
        found = said(command, home)
    finally:
        home.chmod(0o755)
    assert str(home) in found.text
    assert "Permission denied" in found.text or "not readable" in found.text
    # A home that may be an address isn't looked at before it is used.
    used = mode or command in ("serve", "info", "verify", "repair", "drain", "materialize")
    assert found.code == (FAILED if used else MISUSED), found


@pytest.mark.parametrize("wrong", ["tables", "tables/topic_log", "journal", "dispatch", "lock"])
def test_what_lies_in_the_way_is_named(tmp_path: Path, wrong: str) -> None:
    """A file where a folder must be, a folder where a file must be."""
    home = tmp_path / "home"
    path = home / wrong
    path.parent.mkdir(parents=True)
    if wrong in ("dispatch", "lock"):
        path.mkdir()
    else:
        path.write_text("")
    for command in WRITING[:1]:
        found = said(command, home)
        assert found.code == FAILED, found
        assert str(path) in found.text, found


@pytest.fixture
def disk(small_disk: Callable[[int], SmallDisk]) -> SmallDisk:
    return small_disk(8)


@pytest.mark.parametrize("command", WRITING)
def test_a_full_disk_is_one_sentence(tmp_path: Path, disk: SmallDisk, command: str) -> None:
    """Nothing can be made there, or nothing written into what was made."""
    disk.fill()
    found = said(command, tmp_path / "disk" / "home", front=disk.command)
    assert found.code == FAILED
    assert "No space left on device" in found.text, found


@pytest.mark.parametrize("command", [*WRITING, "repair"])
def test_a_read_only_disk_is_one_sentence(tmp_path: Path, disk: SmallDisk, command: str) -> None:
    """Reading goes on as ever."""
    home = tmp_path / "disk" / "home"
    made = [*disk.command, *Gateway.COMMAND, "serve", "--home", home, "--listen", "127.0.0.1:0"]
    said_to = subprocess.STDOUT
    with subprocess.Popen(made, stdout=subprocess.PIPE, stderr=said_to, text=True) as gateway:
        assert gateway.stdout is not None
        assert any("listening" in line for line in gateway.stdout)
        gateway.terminate()
        gateway.stdout.read()
    subprocess.run([*disk.command, "mount", "-o", "remount,ro", str(tmp_path / "disk")], check=True)
    found = said(command, home, front=disk.command)
    assert found.code == FAILED
    assert "Read-only file system" in found.text, found
    info = [*disk.command, *Gateway.COMMAND, "info", "--home", str(home)]
    assert subprocess.run(info, capture_output=True, check=False).returncode == 0


def test_tables_that_can_not_be_reached_are_one_sentence(tmp_path: Path) -> None:
    """No store answers under `tables.url`; nothing is served, and the address is named."""
    config = tmp_path / "gateway.toml"
    url = "s3://lake/tables"
    options = {
        "aws_endpoint": f"http://127.0.0.1:{free_port()}",
        "aws_access_key_id": "x",
        "aws_secret_access_key": "x",
        "aws_region": "x",
        "aws_allow_http": "true",
    }
    inline = ", ".join(f'{name} = "{value}"' for name, value in options.items())
    config.write_text(toml({"tables": {"url": url}}) + f"storage_options = {{ {inline} }}\n")
    (tmp_path / "home" / "tables").mkdir(parents=True)
    (tmp_path / "home" / "journal").mkdir()
    (tmp_path / "home" / "tables" / "topic_log").mkdir()
    for command in ("serve", "info", "verify"):
        found = said(command, tmp_path / "home", config=config)
        assert found.code == FAILED
        assert url in found.text, found
    assert not any((tmp_path / "home" / "journal").iterdir())
