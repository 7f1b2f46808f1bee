"""Reports of a job on errors: a sentence if a person can do something, a traceback of a bug."""

import click
import pytest
from pyspark.sql import SparkSession

from distributary.jobs.session.job_options import execute, in_a_sentence
from distributary.pipeline.errors import DistributaryError


def test_what_a_store_refuses_is_a_sentence(spark: SparkSession) -> None:
    """Also where Java's error comes past Spark, or has another one around it: a log of a lake whose
    store refuses stops no other log by it."""
    jvm = spark._jvm
    says = r"a store says: FileNotFoundException: /none/here \(No such file"
    with pytest.raises(DistributaryError, match=says), in_a_sentence():
        jvm.java.io.FileInputStream("/none/here")
    refused = jvm.java.nio.file.AccessDeniedException("s3a://lake/orders", None, "403")
    around = jvm.java.util.concurrent.CompletableFuture()
    around.completeExceptionally(refused)
    says = r"AccessDeniedException: s3a://lake/orders: 403\. See to it"
    with pytest.raises(DistributaryError, match=says), in_a_sentence():
        around.join()


def test_a_job_that_is_interrupted_has_not_done_its_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An audit's 0 would say that nothing was found."""

    @click.command()
    def command() -> int:
        raise KeyboardInterrupt

    assert execute(command, [], "audit") == 1
    assert capsys.readouterr().err.splitlines()[-1] == "Error: interrupted"
