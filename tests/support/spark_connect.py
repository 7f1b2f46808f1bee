"""A server of Spark Connect in the JVM of the tests, and clients of it.

A client is in this process: while there is one, all that makes columns makes those of Connect.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from gateway_process import free_port
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as ConnectSession

#: Spark's own sign that a process is a client.
CLIENT = "SPARK_CONNECT_MODE_ENABLED"


def started(spark: SparkSession) -> str:
    """The address of a server in the JVM of this session, which has one at most."""
    port = free_port()
    context = spark._jvm.org.apache.spark.SparkContext.getOrCreate()
    conf = context.conf()
    conf.set("spark.connect.grpc.binding.address", "127.0.0.1")
    conf.set("spark.connect.grpc.binding.port", str(port))
    spark._jvm.org.apache.spark.sql.connect.service.SparkConnectService.start(context)
    return f"sc://127.0.0.1:{port}"


@contextmanager
def client(url: str) -> Iterator[SparkSession]:
    """A session of a client, and no other one meanwhile."""
    os.environ[CLIENT] = "1"
    made = ConnectSession.builder.remote(url).create()
    try:
        yield made
    finally:
        made.stop()
        del os.environ[CLIENT]
