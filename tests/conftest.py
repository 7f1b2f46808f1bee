"""Shared by all tests: settings of Hypothesis, the seed of crash rounds, and one small Spark for
the whole run, in which each process has a session.

The tests of a room of `pipeline`, `ingest` or `jobs` stand in the folder of the same name; their
helpers are in `support`.
"""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import class_archive
import pytest
from hypothesis import HealthCheck, settings
from spark_lender import PLACE, borrow, lender

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from spark_place import Place

# A failure prints what replays it. There is no deadline: builds share their machine with others.
# On a busy machine examples are drawn slowly, and that is no fault of theirs.
settings.register_profile(
    "house", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")
#: A time-out amid a call to the JVM leaves its answer for the next call: whatever asks the session
#: after that is wrong. So there is none unless something hangs, however busy the machine is.
SPARK_SECONDS_MAX = 1_200
class_archive.use()
# Of each process that imports numpy, half of the import is threads that wait for a matrix.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=7, help="what crash rounds do (default 7)")


def pytest_configure() -> None:
    """Set the place at which the Spark of this run is lent, also for processes of pytest."""
    if PLACE not in os.environ:
        os.environ[PLACE] = tempfile.mkdtemp(prefix="lender-")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(PLACE))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Objects made while tests are collected stay: each process would look through them again and
    again for garbage, which takes a third of the time of the first collection of tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish() -> None:
    """Keep all remaining objects to the end of the process: the last collection of cycles would
    drop Proton's sessions before their links, and Proton frees such a link twice."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Peers that a file's tests have made and left are dropped: Proton's objects keep sockets."""
    try:
        return (yield)
    finally:
        module = sys.modules.get("gateway_peer")  # many processes need no Proton
        if module is not None and (nextitem is None or nextitem.path != item.path):
            for peer in set(module.AT_LARGE):
                peer.drop()


@pytest.fixture
def crash_seed(request: pytest.FixtureRequest) -> int:
    """The seed of a crash round, beside its name."""
    return int(request.config.getoption("--seed"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with a session as one that needs a JVM. Files that take minutes (with a JVM, a
    time-out of their own, or kills) are spread evenly among the others, from the begin to shortly
    before the end: they use the processors, and the others wait for something most of the time."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(SPARK_SECONDS_MAX), append=False)
    long = {
        item.path
        for item in items
        if item.get_closest_marker("spark")
        or item.get_closest_marker("timeout")
        or item.path.parent.name == "crash"
    }
    files = list(dict.fromkeys(item.path for item in items))
    slow = [path for path in files if path in long]
    quick = [path for path in files if path not in long]
    place = {path: 0.85 * nth / max(len(slow), 1) for nth, path in enumerate(slow)}
    place |= {path: (nth + 0.5) / max(len(quick), 1) for nth, path in enumerate(quick)}
    items.sort(key=lambda item: place[item.path])


@pytest.fixture(scope="session")
def spark() -> "SparkSession":
    """The session of this process, for all of its tests, in the JVM of the whole run."""
    return borrow(lender().lend())


@pytest.fixture(scope="session")
def connect_url(spark: "SparkSession") -> str:
    """The URL of a server of Spark Connect in the JVM of `spark`."""
    assert spark
    return lender().connect_url()


@pytest.fixture
def remote(connect_url: str) -> "Iterator[SparkSession]":
    """A session of a client of Spark Connect; what is made of columns meanwhile is Connect's."""
    from spark_connect import client  # noqa: PLC0415 (as above)

    with client(connect_url) as made:
        yield made


@pytest.fixture
def place(spark: "SparkSession", tmp_path: Path) -> "Place":
    from spark_place import Place  # noqa: PLC0415 (as above)

    return Place(spark, tmp_path)


@pytest.fixture(scope="session")
def once(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> "Place":
    """The first part, and one run of the job, which takes seconds. To be read, or copied."""
    from spark_place import Place, first_part  # noqa: PLC0415 (as above)

    made = Place(spark, tmp_path_factory.mktemp("once"))
    first_part(made)
    made.materialize()
    return made
