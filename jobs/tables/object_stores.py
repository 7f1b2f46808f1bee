"""A session's access to tables on an object store: addresses, jars, settings, and the log store
that makes versions by conditional puts (`ConditionalLogStore.java`).

Hadoop's client of S3 comes with all of Amazon's SDK in one jar of 690 MB; the modules of that SDK
below, 13 MB, are enough for it. A session of ours has these; jars of `--packages` work, too.
"""

import atexit
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from distributary.jobs.tables.folders import local
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.schema.session_files import hadoop_address

#: Amazon's SDK, as Hadoop 3.5.0 was built with it.
_SDK: Final = "2.35.4"
_MODULES: Final = (
    *("annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol"),
    *("aws-xml-protocol", "checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth"),
    *("http-auth-aws", "http-auth-aws-eventstream", "http-auth-spi", "http-client-spi"),
    *("identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles"),
    *("protocol-core", "regions", "retries", "retries-spi", "s3", "s3-transfer-manager"),
    *("sdk-core", "sts", "third-party-jackson-core", "utils"),
)
#: Jars of a session for `s3a://`, besides pyspark's own.
S3_JARS: Final = (
    ("org.apache.hadoop", "hadoop-aws", "3.5.0"),
    *(("software.amazon.awssdk", name, _SDK) for name in _MODULES),
    ("software.amazon.eventstream", "eventstream", "1.0.1"),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    ("org.reactivestreams", "reactive-streams", "1.0.4"),
)
S3_CLASS: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
#: Hadoop's clients of stores: of S3, of Google (Google's own and Hadoop's), of Azure.
CLIENTS: Final = (
    S3_CLASS,
    "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
    "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem",
    "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",
)

#: Our log store, its source, and its key in Spark's settings.
LOG_STORE: Final = "distributary.ConditionalLogStore"
_SOURCE: Final = "ConditionalLogStore.java"

#: Azure's schemes: object_store's addresses name a container, Hadoop's its account as well.
_AZURE: Final = ("az", "azure", "adl")
_AZURE_ACCOUNT: Final = "AZURE_STORAGE_ACCOUNT_NAME"


def spark_address(place: str, environment: Mapping[str, str]) -> str:
    """Return a place's address in Hadoop's form; of one on a disk of this machine its path. Raises
    InvalidRequest for an incomplete one."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return parts.path
    if parts.scheme == "s3":
        return hadoop_address(place)
    if parts.scheme not in _AZURE:
        return place
    account = environment.get(_AZURE_ACCOUNT)
    if not account:
        raise InvalidRequest(
            f"{place} doesn't say its storage account, which Spark must know: set {_AZURE_ACCOUNT},"
            f" or name abfss://{parts.netloc}@ACCOUNT.dfs.core.windows.net{parts.path}"
        )
    return f"abfss://{parts.netloc}@{account}.dfs.core.windows.net{parts.path}"


def elsewhere(places: Iterable[str]) -> bool:
    """Whether one of these places isn't on a disk of this machine."""
    return any(local(place) is None for place in places)


def on_s3(places: Iterable[str]) -> bool:
    """Whether one of these places is on an S3."""
    return any(hadoop_address(place).startswith("s3a://") for place in places)


def store_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment's settings of the store, by Hadoop's names; Hadoop reads keys there
    itself."""
    found = {}
    if endpoint := environment.get("AWS_ENDPOINT_URL"):
        found["spark.hadoop.fs.s3a.endpoint"] = endpoint
        found["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region := environment.get("AWS_REGION"):
        found["spark.hadoop.fs.s3a.endpoint.region"] = region
    return found


def add_log_store(jvm: Any, context: Any) -> None:
    """Make the JVM know our log store, and a cluster's machines, which find files by it. It takes
    0.3 s, once for each JVM."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(f"{LOG_STORE.replace('.', '/')}.class") is not None:
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(resources.files(__package__).joinpath(_SOURCE).read_text())
    folder = tempfile.TemporaryDirectory(prefix="distributary-")
    atexit.register(folder.cleanup)
    jar = Path(folder.name) / "distributary-log-store.jar"
    codes = compiler.getBytecodes()
    with zipfile.ZipFile(jar, "w") as archive:
        for name in list(codes.keySet()):
            archive.writestr(f"{name.replace('.', '/')}.class", bytes(codes.get(name)))
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    if not str(context.master()).startswith("local"):
        context.addJar(str(jar))
