"""The package as users get it: built by the declared backend, installed where no checkout is in
reach, and run from a folder whose own packages have the names of our rooms."""

import os
import shutil
import site
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Parts of the checkout that are built.
BUILT_FROM = ("distributary", "client", "conf", "ingest", "jobs", "pipeline")
BESIDE = ("pyproject.toml", "README.md", "LICENSE", ".gitignore")
#: Names that a user's project may well have, too.
NAMESAKES = ("client", "conf", "ingest", "jobs", "pipeline", "examples", "tests")
#: The content of a user's module that our code must not import by mistake.
TRAP = 'raise AssertionError("this is the user\'s own package")\n'


def copied(folder: Path) -> Path:
    """The checkout without what was built in it; its links stay links."""
    folder.mkdir()
    left = shutil.ignore_patterns("__pycache__", "_pump.*")
    for name in BUILT_FROM:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=left)
    for name in BESIDE:
        shutil.copy(ROOT / name, folder / name)
    return folder


def build(source: Path, kind: str, folder: Path) -> Path:
    """`sdist` or `wheel` of a source tree, by the backend that pyproject.toml names, without an
    environment of its own: the build requirements are those of `dev`."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [made] = folder.glob({"sdist": "*.tar.gz", "wheel": "*.whl"}[kind])
    return made


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the packages of others, and a folder to run from."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> "Environment":
        """A new environment with nothing of ours in it."""
        made = cls(folder)
        venv.create(folder / "venv", symlinks=True)
        # A path of a path file: the path files in it, which lead to the checkout, aren't read.
        (made.packages / "others.pth").write_text("\n".join(site.getsitepackages()))
        for name in NAMESAKES:
            (made.project / name).mkdir(parents=True)
            (made.project / name / "__init__.py").write_text(TRAP)
        return made

    @property
    def project(self) -> Path:
        """The user's folder."""
        return self.folder / "project"

    @property
    def packages(self) -> Path:
        return next((self.folder / "venv" / "lib").glob("python*")) / "site-packages"

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """Variables that lead to no checkout, and name Python."""
        names = ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR", "SPARK_SUBMIT_OPTS")
        return {name: os.environ[name] for name in names if name in os.environ} | {
            "PYSPARK_PYTHON": str(self.python),
            "PYSPARK_DRIVER_PYTHON": str(self.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def install(self, wheel: Path) -> None:
        """As `pip install` does, from this one file."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, *options, str(wheel)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def run(self, *command: object, **more: str) -> "subprocess.CompletedProcess[str]":
        """A command, from the user's folder; `more` are variables of its environment."""
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.project,
            env=self.variables | more,
            capture_output=True,
            text=True,
            check=False,
        )

    def run_python(self, program: str, **more: str) -> str:
        """The output of a program, which must succeed."""
        done = self.run(self.python, "-c", program, **more)
        assert done.returncode == 0, done.stderr
        return done.stdout
