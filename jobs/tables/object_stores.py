"""What a session needs to read and write tables on an object store: addresses, jars, settings, and
the log store that makes versions certain (`ConditionalLogStore.java`).

Hadoop's client of S3 comes with all of Amazon's SDK in one jar of 690 MB; what it calls is in the
modules of that SDK below, 13 MB. A session of ours has those; what `--packages` brings is as good.
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
#: What a session needs for `s3a://` besides pyspark's own jars.
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

#: Our log store, its source, and what Spark's settings call it.
LOG_STORE: Final = "distributary.ConditionalLogStore"
_SOURCE: Final = "ConditionalLogStore.java"

#: Where Azure's addresses lead: object_store names a container, Hadoop its account as well.
_AZURE: Final = ("az", "azure", "adl")
_AZURE_ACCOUNT: Final = "AZURE_STORAGE_ACCOUNT_NAME"


def spark_address(place: str, environment: Mapping[str, str]) -> str:
    """The address of a place as Hadoop knows it; one on a disk of this machine is its path. Raises
    InvalidRequest for one that says too little."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return parts.path
    rest = f"{parts.netloc}{parts.path}"
    if parts.scheme == "s3":
        return f"s3a://{rest}"
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
    return any(place.startswith("s3a://") for place in places)


def store_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What the environment says of the store, as Hadoop names it; keys it finds there itself."""
    found = {}
    if endpoint := environment.get("AWS_ENDPOINT_URL"):
        found["spark.hadoop.fs.s3a.endpoint"] = endpoint
        found["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region := environment.get("AWS_REGION"):
        found["spark.hadoop.fs.s3a.endpoint.region"] = region
    return found


def add_log_store(jvm: Any, context: Any) -> None:
    """Make the JVM know our log store, and the machines of a cluster, which look for files by it.
    Once for each JVM: 0.3 s."""
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
