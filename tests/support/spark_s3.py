"""A session of Spark that reads and writes an S3 of the tests, by Hadoop's own client."""

from collections.abc import Iterator
from contextlib import contextmanager

from faulty_s3 import FaultyS3
from pyspark.sql import SparkSession

from distributary.jobs.session.session import add_jars, knows, maven_jars
from distributary.jobs.tables.object_stores import S3_CLASS, S3_JARS, add_log_store


def bucket_of(s3: FaultyS3) -> str:
    """A name of the bucket `lake` that no other S3 of the tests has."""
    return f"lake-{s3.port}"


@contextmanager
def on_s3(spark: SparkSession, s3: FaultyS3) -> Iterator[SparkSession]:
    """The session knows this S3 while the block runs. Hadoop keeps a client for each bucket, so
    each S3 of a JVM needs a bucket of its own (`bucket_of`)."""
    if not knows(spark._jvm, S3_CLASS):
        add_jars(spark._jvm, maven_jars(S3_JARS))
    add_log_store(spark._jvm, spark._jsc)
    settings = {
        "fs.s3a.endpoint": f"http://{s3.host}:{s3.port}",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.access.key": "spark",
        "fs.s3a.secret.key": "secret",
        "fs.s3a.connection.ssl.enabled": "false",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield spark
    finally:
        for name in settings:
            spark.conf.unset(name)
