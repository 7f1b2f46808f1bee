"""The jobs on a cluster of real processes, shipped as one wheel, with no checkout in reach."""

import json
import shutil
import site
import venv
from collections.abc import Iterator
from pathlib import Path

import class_archive
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from spark_log import LogWriter, encoded
from spark_place import Place
from spark_settings import FAST
from standalone import Standalone, standalone

from distributary.jobs.cli.wheel import LAUNCHER, build
from distributary.jobs.session.session import delta_jars
from distributary.pipeline.tables.home.home import Home

#: A cluster for ten rows: JVMs that live for seconds, and no more partitions than executors.
QUICK = {name: value for name, value in FAST.items() if name != "spark.master"} | {
    "spark.executor.extraJavaOptions": f"{class_archive.options()} -Xss8m",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.cores.max": "2",
    "spark.driver.host": "127.0.0.1",
    # Tasks wait for both executors.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "900s",
    "spark.ui.enabled": "false",
}

#: The launcher with one job after the other: a driver and its executors take half a minute. In the
#: end Spark says who has ended tasks well.
IN_TURN = """
import json, runpy, sys
from pyspark import SparkContext
launcher, jobs = sys.argv[1:]
for words in json.loads(jobs):
    sys.argv[:] = [launcher, *words]
    try:
        runpy.run_path(launcher, run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
context = SparkContext._active_spark_context
executors = context._jsc.sc().statusStore().executorList(True)
found = [executors.apply(nth) for nth in range(executors.size())]
print(json.dumps({"worked": [one.id() for one in found if one.completedTasks()]}))
"""

#: Columns that say when a row was written, not what it says.
OF_THE_WRITER = {"updated_at"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Two executors; their Python has what the jobs need from others, and nothing of ours."""
    folder = tmp_path_factory.mktemp("cluster")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    packages = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    # A path of a path file: the path files in it, which lead to the checkout, aren't read.
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    with standalone(folder, python) as made:
        yield made


def fill(log: LogWriter) -> None:
    """Two subscriptions, one with a selector, messages in several files, some settled."""
    log.next_group()
    log.subscribe("global/all", "flights")
    log.subscribe("global/some", "flights", selector="i > 20")
    log.commit()
    for _ in range(4):
        log.next_group()
        first = log.sequence
        log.publish(
            "flights", *[encoded(f"m{i}", properties={"i": i}) for i in range(first, first + 10)]
        )
        log.commit()
    log.next_group()
    log.settle("global/all", "flights", list(range(15)), 15)
    log.commit()


def rows(home: Home) -> dict[str, list[str]]:
    """Every row of every table that Spark wrote, in an order of its own."""
    found = {}
    for path in sorted(home.spark_tables.iterdir()):
        if path.name != "topic_log" and (path / "_delta_log").is_dir():
            table = DeltaTable(path).to_pyarrow_table()
            names = [name for name in table.column_names if name not in OF_THE_WRITER]
            found[path.name] = sorted(
                json.dumps(row, default=repr) for row in table.select(names).to_pylist()
            )
    return found


@pytest.mark.spark
@pytest.mark.timeout(1_200)  # five JVMs: a minute, unless others want the same cores
def test_a_cluster_makes_the_same_tables(
    spark: SparkSession, cluster: Standalone, tmp_path: Path
) -> None:
    """By spark-submit, the wheel and the launcher alone; both executors work, and upkeep leaves the
    tables as they are."""
    wheel, in_turn = build(tmp_path / "dist"), tmp_path / "in_turn.py"
    in_turn.write_text(IN_TURN)
    near, far = Place(spark, tmp_path / "near"), tmp_path / "far"
    fill(near.log)
    shutil.copytree(near.home.topic_log, Home(far).topic_log)
    command = [
        *("--deploy-mode", "client", "--executor-memory", "600m", "--executor-cores", "1"),
        *("--driver-java-options", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss8m"),
        *(word for name, value in QUICK.items() for word in ("--conf", f"{name}={value}")),
        *("--jars", ",".join(map(str, delta_jars()))),
        *("--py-files", str(wheel), str(in_turn), str(wheel.parent / LAUNCHER)),
    ]
    jobs = [[name, "--home", str(far), "--json"] for name in ("materialize", "upkeep")]
    done = cluster.submit(*command, json.dumps(jobs))
    assert done.returncode == 0, done.stderr[-4000:]
    near.materialize()
    assert rows(Home(far)) == rows(near.home)
    assert rows(Home(far))["messages"]
    *said, spark_said = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(spark_said["worked"]) == ["0", "1"]
    assert {one["table"] for one in said if "table" in one} == set(rows(near.home))
