"""The one file that ships the jobs: a wheel for `spark-submit --py-files`, pure Python.

It has `pipeline`, `jobs` and `conf` and nothing of the gateway, so it needs no compiler and runs on
any machine. Its requirements are in its metadata, with the versions of this installation: those of
`distributary[spark]` without packages that are compiled for the gateway. `backfill`, `drain` and
the source `subscription` ask a gateway and need the extra `gateway`, too.
Beside it `distributary_job.py` is written, the file that `spark-submit` starts.
"""

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from distributary.jobs.session.job_names import HELP_OPTIONS
from distributary.jobs.session.job_options import execute
from distributary.jobs.tables.folders import make_writable
from distributary.pipeline.errors import InvalidRequest, StoreError

DISTRIBUTION = "distributary"
#: Packages of `distributary` that are in it, beside the `__init__.py`.
PACKAGES = ("conf", "jobs", "pipeline")
LAUNCHER = "distributary_job.py"

#: Requirements of the gateway alone.
OF_THE_GATEWAY = frozenset({"cffi"})
#: The mark of requirements of the extra `spark` in the whole project's metadata.
OF_SPARK = re.compile(r"""\s*;\s*extra == ["']spark["']$""")
#: Requirements of jobs that ask a running gateway: they are compiled where they are installed, so
#: the wheel has them as an extra, `gateway`.
TO_ASK_A_GATEWAY = frozenset({"python-qpid-proton"})

#: All files have a zip's oldest date, so that the same code is the same wheel.
EPOCH = (1980, 1, 1, 0, 0, 0)

EXAMPLES = """
\b
Examples:
  distributary jobs wheel dist
  pip install 'dist/distributary_jobs-0.1.0-py3-none-any.whl[gateway]'
  spark-submit --py-files dist/distributary_jobs-0.1.0-py3-none-any.whl \\
      dist/distributary_job.py materialize --home build/demo
\b
Exit codes: 0 done, 1 it failed, 2 bad arguments.
"""


def build(folder: Path) -> Path:
    """Write the wheel and the launcher into `folder`, which is made when it is absent; returns the
    wheel. Raises OSError, and InvalidRequest when this is no installation of the whole."""
    folder.mkdir(parents=True, exist_ok=True)
    version = _installed().version
    name = f"distributary_jobs-{version}"
    wheel = folder / f"{name}-py3-none-any.whl"
    files = dict(_sources()) | {
        f"{name}.dist-info/METADATA": _metadata(version).encode(),
        f"{name}.dist-info/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: distributary\n"
            b"Root-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    files[f"{name}.dist-info/RECORD"] = _record(files, f"{name}.dist-info/RECORD").encode()
    unfinished = wheel.with_suffix(".unfinished")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, EPOCH), content, zipfile.ZIP_DEFLATED)
    unfinished.replace(wheel)
    (folder / LAUNCHER).write_bytes(files["distributary/jobs/__main__.py"])
    return wheel


def requirements() -> list[str]:
    """Return the jobs' requirements, as pip writes them; those of some jobs alone as an extra."""
    said = [OF_SPARK.sub("", text) for text in _installed().requires or ()]
    needed = [text for text in said if "extra ==" not in text]
    return [
        f"{text}; extra == 'gateway'" if _project(text) in TO_ASK_A_GATEWAY else text
        for text in needed
        if _project(text) not in OF_THE_GATEWAY
    ]


def _installed() -> metadata.Distribution:
    """Return the installed project, of which the wheel is a part."""
    try:
        return metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise InvalidRequest(
            f"The wheel is made where {DISTRIBUTION} is installed: it says what the jobs need."
        ) from None


def _project(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def _sources() -> Iterator[tuple[str, bytes]]:
    """Yield every source file of the packages: its path in the wheel, and its content."""
    face = resources.files(DISTRIBUTION)
    yield f"{DISTRIBUTION}/__init__.py", face.joinpath("__init__.py").read_bytes()
    for package in PACKAGES:
        yield from _below(face.joinpath(package), f"{DISTRIBUTION}/{package}")


def _below(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        inside = f"{path}/{entry.name}"
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _below(entry, inside)
        elif not entry.name.endswith((".pyc", ".so", ".o")):
            yield inside, entry.read_bytes()


def _metadata(version: str) -> str:
    about = _installed().metadata
    lines = [
        "Metadata-Version: 2.4",
        "Name: distributary-jobs",
        f"Version: {version}",
        f"Summary: The Spark jobs of {DISTRIBUTION}, without the gateway",
        f"License-Expression: {about['License-Expression']}",
        f"Requires-Python: {about['Requires-Python']}",
        "Provides-Extra: gateway",
        *(f"Requires-Dist: {text}" for text in requirements()),
    ]
    return "\n".join(lines) + "\n"


def _record(files: dict[str, bytes], itself: str) -> str:
    """Return the wheel's list of its files with their hashes, itself without one."""
    lines = [
        f"{path},sha256={_urlsafe(hashlib.sha256(content).digest())},{len(content)}"
        for path, content in files.items()
    ]
    return "\n".join([*lines, f"{itself},,"]) + "\n"


def _urlsafe(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def main(argv: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    return execute(command, argv, "wheel")


@click.command(help=__doc__, epilog=EXAMPLES, context_settings=HELP_OPTIONS)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="dist")
def command(*, folder: Path) -> None:
    make_writable(str(folder), "a folder for the wheel")
    try:
        wheel = build(folder)
    except OSError as error:
        raise StoreError(f"{folder} can't be written: {error.strerror}") from error
    click.echo(f"{wheel}\n{folder / LAUNCHER}")
