"""Spark's tables on an S3: one job at a time writes them, and one that was followed changes nothing
more. By Hadoop's own client, over HTTP."""

import os
import socket
import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest
from faulty_s3 import FaultyS3, Plan, faulty_s3
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from spark_s3 import bucket_of, on_s3

from distributary.jobs.tables.delta_files import java_class, newest_version
from distributary.jobs.tables.object_stores import LOG_STORE
from distributary.jobs.tables.store_lock import NAME, require_no_lease
from distributary.jobs.tables.writer_lock import writing
from distributary.jobs.upkeep.spark_upkeep import VACUUM
from distributary.pipeline.errors import InvalidRequest, StoreError, TablesLocked
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.object_home.lease import Claim
from distributary.pipeline.transforms.schema.home_tables import find_tables
from distributary.pipeline.transforms.schema.lake_rows import lake_tables

#: However slow the machine is, an owner shows its life in time; and one that is waited for.
LEASE, SHORT = 12, 3


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as served:
        yield served


@pytest.fixture(scope="module")
def folder(s3: FaultyS3) -> str:
    """The address of the tables."""
    return f"s3a://{bucket_of(s3)}/tables"


@pytest.fixture(scope="module")
def store(spark: SparkSession, s3: FaultyS3, folder: str) -> Iterator[SparkSession]:
    """A session that writes to the S3; a table is there, and Python knows the S3, too."""
    with pytest.MonkeyPatch.context() as patch, on_s3(spark, s3):
        for name, value in s3.options().items():
            patch.setenv(name, value)
        spark.range(3).write.format("delta").save(f"{folder}/acks")
        yield spark


@pytest.fixture(autouse=True)
def _sound(s3: FaultyS3) -> Iterator[None]:
    yield
    s3.plan(Plan())


def objects(s3: FaultyS3) -> ObjectStore:
    return ObjectStore("s3://lake/tables", s3.options())


def rows(spark: SparkSession, folder: str) -> int:
    return spark.read.format("delta").load(f"{folder}/acks").count()


def append(spark: SparkSession, folder: str) -> None:
    spark.range(1).write.format("delta").mode("append").save(f"{folder}/acks")


def version(spark: SparkSession, folder: str) -> int:
    return newest_version(spark, f"{folder}/acks")


def follow(s3: FaultyS3) -> None:
    """Another job, on another machine, takes the lease, as if this one had shown no life."""
    claim = Claim("another", "far", 77, job="upkeep", since=1_700_000_000)
    objects(s3).put(NAME, msgspec.json.encode(claim))


def test_a_second_job_is_told_who_the_first_is(store: SparkSession, folder: str) -> None:
    """Before a JVM starts, and at the lease itself: machine, pid, job, since when."""
    said = rf"by `materialize` with pid {os.getpid()} on \S+, since 20\d\d-"
    with writing(store, folder, "materialize", LEASE):
        with pytest.raises(TablesLocked, match=said):
            require_no_lease(folder, LEASE)
        with pytest.raises(TablesLocked, match=said), writing(store, folder, "upkeep", LEASE):
            pytest.fail("it got the lease")
    require_no_lease(folder, LEASE)


def test_the_lease_goes_with_its_block(store: SparkSession, folder: str) -> None:
    """At once, whatever ended it. Only after a failure something of it may be under way, and the
    next job makes a version of each table."""
    before = version(store, folder)
    with writing(store, folder, "materialize", LEASE):
        append(store, folder)
    with writing(store, folder, "upkeep", LEASE):
        assert version(store, folder) == before + 1
    with pytest.raises(ZeroDivisionError), writing(store, folder, "upkeep", LEASE):
        _ = 1 / 0
    with writing(store, folder, "upkeep", LEASE):
        assert version(store, folder) == before + 2


def test_a_jvm_that_ended_may_have_begun_something(
    store: SparkSession, s3: FaultyS3, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the job ends well, as one does that a signal has asked to."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        nobody = JavaGateway(gateway_parameters=GatewayParameters(port=port.getsockname()[1]))
    with monkeypatch.context() as gone, writing(store, folder, "materialize", LEASE):
        gone.setattr(store, "_jvm", nobody.jvm)
    assert msgspec.json.decode(objects(s3).read(NAME), type=Claim).unsure
    before = version(store, folder)
    with writing(store, folder, "upkeep", LEASE):
        assert version(store, folder) == before + 1


def test_a_session_without_our_classes_is_told_so(store: SparkSession) -> None:
    """As one is that Spark or a notebook has made."""
    with pytest.raises(InvalidRequest, match=r"make the session by `distributary\.session`"):
        java_class(store, "distributary.NoSuchStore")


def test_a_job_that_ended_without_a_word_is_followed(
    store: SparkSession, s3: FaultyS3, folder: str
) -> None:
    """After its lease; what it had begun can't be put any more."""
    follow(s3)
    require_no_lease(folder, SHORT)
    before = version(store, folder)
    with writing(store, folder, "materialize", SHORT):
        assert version(store, folder) == before + 1


def followed(spark: SparkSession, s3: FaultyS3, folder: str, then: Callable[[], None]) -> None:
    """A job is followed by another one, and goes on."""
    with writing(spark, folder, "job", LEASE):
        follow(s3)
        then()


def test_a_job_that_was_followed_changes_nothing(
    store: SparkSession, s3: FaultyS3, folder: str
) -> None:
    """Its next commit fails, and it is told by whom it was followed."""
    with writing(store, folder, "upkeep", LEASE):
        before = (rows(store, folder), version(store, folder))
    said = r"taken over by `upkeep` with pid 77 on far, since 2023"
    with pytest.raises(TablesLocked, match=said):
        followed(store, s3, folder, lambda: append(store, folder))
    assert (rows(store, folder), version(store, folder)) == before
    assert b'"another"' in objects(s3).read(NAME)


def test_a_job_that_was_followed_removes_nothing(
    store: SparkSession, s3: FaultyS3, folder: str
) -> None:
    """It has begun a VACUUM: files that its list has stay, as the next job may need them."""
    stray = "acks/part-stray.parquet"
    objects(s3).put(stray, b"of the next job")
    settings = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        **VACUUM,
    }
    for name, value in settings.items():
        store.conf.set(name, value)
    vacuum = f"VACUUM delta.`{folder}/acks` RETAIN 0 HOURS"
    try:
        with pytest.raises(TablesLocked):
            followed(store, s3, folder, lambda: _ran(store, vacuum))
        assert objects(s3).exists(stray)
        with writing(store, folder, "upkeep", SHORT):
            pass  # who is followed is waited for no longer than that
        with writing(store, folder, "upkeep", LEASE):
            _ran(store, vacuum)
        assert not objects(s3).exists(stray)
    finally:
        for name in settings:
            store.conf.unset(name)


def _ran(spark: SparkSession, sql: str) -> None:
    spark.sql(sql)


def put_version(spark: SparkSession, s3: FaultyS3, name: str, line: str) -> None:
    """By the log store itself, as one more driver would."""
    paths = java_class(spark, "org.apache.hadoop.fs.Path")
    lines = java_class(spark, "java.util.ArrayList")()
    lines.add(line)
    sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
    configuration = sessions.active().sessionState().newHadoopConf()
    made = java_class(spark, LOG_STORE)(configuration)
    made.write(paths(f"s3a://{bucket_of(s3)}/log/{name}"), lines.iterator(), False, configuration)


def test_functions_take_the_address_of_a_gateway(store: SparkSession, s3: FaultyS3) -> None:
    """Hadoop calls it otherwise."""
    place = f"s3://{bucket_of(s3)}/nothing"
    assert lake_tables(store, place) == {}
    with pytest.raises(InvalidRequest, match="There are no tables in s3://"):
        find_tables(store, place)


def test_one_of_several_makes_a_version(store: SparkSession, s3: FaultyS3) -> None:
    """All at once; the others hear that it is there, and it isn't changed."""
    refused: list[str] = []

    def put(line: str) -> None:
        try:
            put_version(store, s3, "0.json", line)
        except Py4JJavaError as error:
            refused.append(str(error.java_exception))

    threads = [threading.Thread(target=put, args=(f"by {number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 5
    assert all("FileAlreadyExistsException" in one for one in refused)
    assert ObjectStore("s3://lake/log", s3.options()).read("0.json").startswith(b"by ")


@pytest.mark.parametrize("seed", range(3))
def test_a_lost_answer_is_no_refusal(store: SparkSession, s3: FaultyS3, seed: int) -> None:
    """A version that the client puts, and puts again by itself, is ours, once."""
    s3.plan(Plan(lost=0.4, errors=0.1, hang_seconds=0.2, seed=seed))
    for number in range(4):
        put_version(store, s3, f"{seed}-{number}.json", "ours")
    s3.plan(Plan())
    for number in range(4):
        log = ObjectStore("s3://lake/log", s3.options())
        assert log.read(f"{seed}-{number}.json") == b"ours\n"


def test_a_store_without_conditions_is_refused(
    store: SparkSession, s3: FaultyS3, folder: str
) -> None:
    s3.plan(Plan(unconditional="if-none-match"))
    with (
        pytest.raises(StoreError, match="ignores conditions"),
        writing(store, folder, "upkeep", LEASE),
    ):
        pytest.fail("it writes")


def test_a_store_that_is_gone_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with pytest.raises(StoreError, match="See to the store"):
        require_no_lease("s3a://lake/tables", LEASE)
