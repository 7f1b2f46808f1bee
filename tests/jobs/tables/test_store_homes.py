"""Homes without a disk as jobs know them: where their tables lie, and which logs a lake has."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_s3 import FaultyS3, faulty_s3

from distributary.ingest.commit.table_location import STORES
from distributary.jobs.client.lake_logs import addresses
from distributary.jobs.session.job_options import folder, folders, locations
from distributary.jobs.session.session import LOCAL, defaults
from distributary.jobs.tables.lake_homes import served_homes
from distributary.jobs.tables.object_stores import (
    LOG_STORE,
    elsewhere,
    on_s3,
    spark_address,
    store_settings,
)
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.lake.lake import OwnerAddress
from distributary.pipeline.tables.lake.object_lake import ObjectLake
from distributary.pipeline.tables.object_home.object_home import ObjectHome

HOME = "s3://lake/home"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyS3]:
    with faulty_s3() as found:
        for name, value in found.options().items():
            monkeypatch.setenv(name, value)
        yield found


def test_a_home_on_a_store_says_where_a_query_reads_and_writes(s3: FaultyS3) -> None:
    assert s3.port
    found = locations(HOME, None, None, None, query="materialize")
    assert found.log == "s3a://lake/home/tables/topic_log"
    assert found.tables == "s3a://lake/home/tables"
    assert found.checkpoint == "s3a://lake/home/checkpoints/materialize"
    assert on_s3([found.tables])


def test_each_served_log_of_a_lake_on_a_store_is_done(
    s3: FaultyS3, capsys: pytest.CaptureFixture[str]
) -> None:
    """`main` first; one that was never served has nothing to do."""
    lake = ObjectLake(ObjectHome(HOME, s3.options()))
    logs = ("main", "orders", "never")
    lake.replace(None, Placement(1, logs, (Rule("orders.#", ("orders",)),)))
    store = ObjectStore(HOME, s3.options())
    for log in ("", "logs/orders/"):
        store.put(f"{log}tables/topic_log/_delta_log/00000000000000000000.json", b"{}")
    with pytest.raises(InvalidRequest, match="has said yet where it listens"):
        addresses(HOME, "")
    lake.say_address("orders", OwnerAddress("amqp://orders:5672", "", 0))
    assert addresses(HOME, "") == ["amqp://orders:5672"]
    assert list(served_homes(HOME)) == ["main", "orders"]
    assert folders(HOME, None, None) == {
        "main": "s3a://lake/home/tables",
        "orders": "s3a://lake/home/logs/orders/tables",
    }
    assert folder(HOME, None) == "s3a://lake/home/tables"
    assert "another one is --home s3://lake/home/logs/orders" in capsys.readouterr().err


def test_a_store_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with pytest.raises(StoreError, match="can't be used"):
        folders("s3://lake/home", None, None)


def test_addresses_become_hadoops(tmp_path: Path) -> None:
    account = {"AZURE_STORAGE_ACCOUNT_NAME": "here"}
    assert spark_address("s3://lake/a", {}) == "s3a://lake/a"
    assert spark_address("gs://lake/a", {}) == "gs://lake/a"
    assert spark_address("az://box/a", account) == "abfss://box@here.dfs.core.windows.net/a"
    assert spark_address(str(tmp_path), {}) == str(tmp_path)
    assert spark_address(f"file://{tmp_path}", {}) == str(tmp_path)
    with pytest.raises(InvalidRequest, match="AZURE_STORAGE_ACCOUNT_NAME"):
        spark_address("az://box/a", {})


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("master", [LOCAL, "yarn"])
def test_versions_on_every_store_that_a_gateway_takes_are_made_by_our_log_store(
    store: str, master: str
) -> None:
    """None is made past the lease."""
    address = spark_address(f"{store}://box/a", {"AZURE_STORAGE_ACCOUNT_NAME": "here"})
    scheme = address.partition("://")[0]
    assert defaults(master)[f"spark.delta.logStore.{scheme}.impl"] == LOG_STORE
    assert elsewhere(["/srv/home", address])


def test_a_path_is_on_a_disk() -> None:
    assert not elsewhere(["/srv/home", "file:///srv/home", "build/demo"])


def test_the_environment_is_told_to_hadoop() -> None:
    said = store_settings({"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_REGION": "eu-central-1"})
    assert said == {
        "spark.hadoop.fs.s3a.endpoint": "http://minio:9000",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
    }
    assert store_settings({}) == {}
