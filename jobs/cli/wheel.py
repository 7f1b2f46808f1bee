"""The one file that ships the jobs: a wheel for `spark-submit --py-files`, pure Python.

It has `pipeline`, `jobs` and `conf` and nothing of the gateway, so it needs no compiler and runs on
any machine. What it needs from others is in its metadata, with the versions of this installation:
what `distributary[spark]` asks for, without what is compiled for the gateway. `backfill`, `drain`
and the source `subscription` ask a gateway and need its extra `gateway`, too.
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
#: What of the package `distributary` is in it, beside its own `__init__.py`.
PACKAGES = ("conf", "jobs", "pipeline")
LAUNCHER = "distributary_job.py"

#: What only the gateway needs of all that is required.
OF_THE_GATEWAY = frozenset({"cffi"})
#: How the metadata of the whole marks what its extra `spark` asks for.
OF_SPARK = re.compile(r"""\s*;\s*extra == ["']spark["']$""")
#: What only jobs need that ask a running gateway: it is compiled where it is installed, so the
#: wheel has it as an extra, `gateway`.
TO_ASK_A_GATEWAY = frozenset({"python-qpid-proton"})

#: Each file is as old as a zip can say, so that the same code is the same wheel.
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
    """What the jobs need from others, as pip writes it; what not all of them need, as an extra."""
    said = [OF_SPARK.sub("", text) for text in _installed().requires or ()]
    needed = [text for text in said if "extra ==" not in text]
    return [
        f"{text}; extra == 'gateway'" if _project(text) in TO_ASK_A_GATEWAY else text
        for text in needed
        if _project(text) not in OF_THE_GATEWAY
    ]


def _installed() -> metadata.Distribution:
    """The whole project, of which the wheel is a part."""
    try:
        return metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise InvalidRequest(
            f"The wheel is made where {DISTRIBUTION} is installed: it says what the jobs need."
        ) from None


def _project(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def _sources() -> Iterator[tuple[str, bytes]]:
    """Every file of the packages that is no leftover of a run: path in the wheel, and content."""
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
    """The wheel's list of its files with their hashes, itself without one."""
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
