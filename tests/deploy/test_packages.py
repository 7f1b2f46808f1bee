"""Products of `make dist`, on a machine without a compiler: the wheels in a clean environment, and
the one file from an empty folder."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from gateway_process import free_port, until

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "deploy" / "packages"
#: What says that the environment of `make dist` is there.
MADE = ROOT / "build" / "dist-env" / ".ready"
#: Of thousands of modules a test imports some; those are compiled then.
PIP_INSTALL = ("install", "--quiet", "--disable-pip-version-check", "--no-compile")
#: Half of compiling is for quick code. Zig would add checks of its own to what is not.
QUICKLY = "-O0 -fno-sanitize=undefined"
#: Downloads, and two compilations: minutes where others want the same cores.
pytestmark = pytest.mark.timeout(1_200)


def run(*command: object, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that builds: the one of `make dist`, which `make test` has made;
    one of its own where that isn't there, or older than what it is made of."""
    wanted = PACKAGES / "requirements.txt"
    if MADE.exists() and MADE.stat().st_mtime >= wanted.stat().st_mtime:
        return MADE.parent / "bin" / "python"
    folder = tmp_path_factory.mktemp("tools")
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", *PIP_INSTALL, "-r", wanted, folder=folder)
    return python


@pytest.fixture(scope="module")
def built(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make dist EXTRAS=console` does it; Spark would be 500 MB more."""
    folder = tmp_path_factory.mktemp("packages")
    program = (tools, PACKAGES / "build_packages.py", "--to", folder / "dist")
    run(*program, "--extras", "console", folder=folder, CFLAGS=QUICKLY)
    return folder / "dist"


def pythons() -> list[Path]:
    """The Python that runs here, and the newest one that there is beside it."""
    versions = Path.home() / ".pyenv" / "versions"
    others = [Path(found) for n in (12, 13, 14) if (found := shutil.which(f"python3.{n}"))]
    others += [*versions.glob("3.1[2-9].*/bin/python3.1[2-9]")]
    others.sort(key=lambda one: int(one.name.partition(".")[2]))
    return [Path(sys.executable), *others[-1:]]


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """A machine with Python, a shell and what they call, and no compiler."""
    (tmp_path / "bin").mkdir()
    for name in ("sh", "env", "uname", "rm", "mkdir", "ln", "dirname", "basename", "readlink"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    (tmp_path / "home").mkdir()
    return {
        "PATH": str(tmp_path / "bin"),
        "CC": str(tmp_path / "no-compiler"),
        "HOME": str(tmp_path / "home"),
        "DISTRIBUTARY_HTTP_LISTEN": "",
    }


def test_the_wheels_say_what_they_run_on(built: Path) -> None:
    """One for each CPython from 3.11 on, and a glibc that auditwheel has proved."""
    names = sorted(one.name for one in built.glob("*.whl"))
    assert [name.partition("-")[0] for name in names] == ["distributary", "python_qpid_proton"]
    for name in names:
        assert re.search(r"-cp311-abi3-.*manylinux_2_28_\w+\.whl$", name)
        with zipfile.ZipFile(built / name) as wheel:
            libraries = [one for one in wheel.namelist() if ".so" in one]
        assert len(libraries) == 1  # nothing of this machine was packed with it


@pytest.mark.parametrize("python", pythons(), ids=lambda path: path.name)
def test_an_installation_without_a_compiler(
    built: Path, tmp_path: Path, bare: dict[str, str], python: Path
) -> None:
    """All other packages that it needs come from the index as wheels; Spark isn't among them."""
    run(python, "-m", "venv", "--symlinks", "--without-pip", tmp_path / "clean", folder=tmp_path)
    scripts = tmp_path / "clean" / "bin"
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python", *PIP_INSTALL)
    run(*pip, "--find-links", built, "distributary", folder=tmp_path, **bare)
    assert not list((tmp_path / "clean" / "lib").glob("python*/site-packages/pyspark*"))
    works(scripts / "distributary", tmp_path, bare)


def test_one_file_from_anywhere(built: Path, tmp_path: Path, bare: dict[str, str]) -> None:
    (tmp_path / "empty").mkdir()
    file = shutil.copy(built / "distributary", tmp_path / "carried")
    said = run(file, "console", "--help", folder=tmp_path / "empty", **bare)
    assert "127.0.0.1:8161" in said.stdout
    works(Path(file), tmp_path / "empty", bare)


def works(command: Path, folder: Path, bare: dict[str, str]) -> None:
    """It serves, and the README's first steps go as they are written."""
    assert "version" in run(command, "--version", folder=folder, **bare).stdout
    with serving(command, folder, bare) as place:
        there = ("--gateway", place)
        durable = ("consume", "orders", "--durable", "billing")
        run(command, *durable, "--for", "0.1", *there, folder=folder, **bare)
        run(command, "publish", "orders", "one pizza", *there, folder=folder, **bare)
        taken = run(command, *durable, "--count", "1", *there, folder=folder, **bare)
        assert taken.stdout == "one pizza\n"
    verified = run(command, "verify", "--home", folder / "data", folder=folder, **bare)
    assert "sound" in verified.stdout


@contextmanager
def serving(command: Path, folder: Path, bare: dict[str, str]) -> Iterator[str]:
    place = f"127.0.0.1:{free_port()}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(command), "serve", "--home", "data", "--listen", place],
            cwd=folder,
            env={**os.environ, **bare},
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: b" listening " in (folder / "log").read_bytes(), "it listens", 120)
        yield place
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
