"""The gateway's C, Proton and our own, compiled with AddressSanitizer and UBSan.

`build` compiles both into a folder that is put in front of the interpreter's path; everything else
is the environment's as it is. A read or write out of bounds or after a free ends the process, with
a report on stderr; what C leaves undefined is reported.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from distributary.ingest.native import build_pump

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "asan"
FLAGS = ("-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-g", "-O1")
PROTON = "python-qpid-proton"
#: Runs at the interpreter's start: the pump that was compiled here is the one that is imported.
SITE = """import sys
from importlib.util import spec_from_file_location

class Sanitized:
    @staticmethod
    def find_spec(name, path=None, target=None):
        ours = name == "distributary.ingest.native._pump"
        return spec_from_file_location(name, {pump!r}) if ours else None

sys.meta_path.insert(0, Sanitized)
"""


class NoSanitizer(Exception):
    """There is no compiler with both sanitizers, or Proton can't be built; the text says what."""


def runtime(library: str) -> str:
    """The path of the compiler's own library. Raises NoSanitizer."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        raise NoSanitizer(f"there is no C compiler '{compiler}': install gcc")
    said = subprocess.run(
        [compiler, f"-print-file-name={library}"], capture_output=True, text=True, check=False
    )
    path = Path(said.stdout.strip())
    if not path.is_absolute():
        raise NoSanitizer(
            f"'{compiler}' has no {library}: install gcc with its sanitizers (libasan, libubsan)"
        )
    return str(path.resolve())


def build(folder: Path = FOLDER) -> Path:
    """Compile what isn't there yet or has changed; the folder for `environment`. Proton is built
    from its package's source once, which takes a minute. Raises NoSanitizer."""
    runtime("libasan.so")
    _build_proton(folder)
    compiled(folder)
    return folder


def compiled(folder: Path) -> Path:
    """The pump, compiled into the folder if its sources are newer."""
    site = folder / "site"
    site.mkdir(parents=True, exist_ok=True)
    sources = [build_pump.HERE / name for name in build_pump.SOURCES]
    sources += [Path(build_pump.__file__), *(ROOT / "pipeline" / "amqp").glob("*.py")]  # its tables
    sources += (ROOT / "pipeline" / "codec").glob("*.py")
    built = sorted(folder.glob("_pump.*so"))
    if not built or built[0].stat().st_mtime < max(path.stat().st_mtime for path in sources):
        built = [build_pump.compile_pump(folder, FLAGS)]
    (site / "sitecustomize.py").write_text(SITE.format(pump=str(built[0])))
    return built[0]


def _build_proton(folder: Path) -> None:
    site = folder / "site"
    wanted = version(PROTON)
    if (site / f"{PROTON.replace('-', '_')}-{wanted}.dist-info").exists():
        return
    sys.stderr.write(f"compiling {PROTON} {wanted} with sanitizers, once: about a minute\n")
    flags = " ".join(FLAGS)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-cache-dir",
    ]
    what = ["--no-deps", "--no-binary", PROTON, "--target", str(site), f"{PROTON}=={wanted}"]
    environment = {**os.environ, "CFLAGS": flags, "LDFLAGS": FLAGS[0]}
    done = subprocess.run(
        [*pip, *what], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NoSanitizer(
            f"{PROTON} can't be built with sanitizers:\n{(done.stdout + done.stderr)[-3_000:]}"
        )


def environment(folder: Path = FOLDER) -> Mapping[str, str]:
    """The environment of a process that runs on the sanitized build."""
    return {
        "LD_PRELOAD": " ".join(runtime(name) for name in ("libasan.so", "libubsan.so")),
        # The interpreter keeps things until its end: leaks are looked for by other tests.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:handle_segv=1:"
        "allocator_may_return_null=1:quarantine_size_mb=64",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # bytes of Python's own are guarded, too
        "PYTHONPATH": str(folder / "site"),
    }
