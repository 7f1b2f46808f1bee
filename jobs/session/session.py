"""The one place that makes a Spark session which knows Delta.

Run by Python, it finds Java, resolves the Delta jars through jgo (no Maven, no Ivy; kept in
`~/.m2`) and starts a local Spark. Run by `spark-submit`, it takes the JVM that is there: settings
of that command line win, and for a local Spark the jars are added when the command line has none.
A cluster gets `conf/spark-cluster.conf`, a local Spark `conf/spark.conf`.

Our code may lie in a folder or in a wheel (`jobs.cli.wheel`): nothing here asks for more than that.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any, cast

from jgo.maven import MavenContext
from py4j.java_gateway import java_import
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession, is_remote

import distributary
from distributary.jobs.session.class_archive import archive_of, using
from distributary.jobs.tables.object_stores import (
    CLIENTS,
    S3_CLASS,
    S3_JARS,
    add_log_store,
    elsewhere,
    on_s3,
    store_settings,
)
from distributary.pipeline.errors import DistributaryError

#: Spark 4.2 starts with the JVM's vector module, which comes with a whole JDK or JRE from 17 on.
JAVA_MIN = 17

#: Delta's jars, besides pyspark's own. 4.4.0: for the wheel's 4.4.1 there are no jars.
DELTA_JARS = (
    ("io.delta", "delta-spark_4.2_2.13", "4.4.0"),
    ("io.delta", "delta-storage", "4.4.0"),
    ("io.delta", "delta-kernel-api", "4.4.0"),
    ("io.delta", "delta-kernel-defaults", "4.4.0"),
    ("io.delta", "delta-kernel-unitycatalog", "4.4.0"),
    ("io.unitycatalog", "unitycatalog-client", "0.6.0"),
    ("io.unitycatalog", "unitycatalog-hadoop", "0.6.0"),
)
#: First characters of the master of a Spark in one process.
LOCAL = "local"
#: Classes that pyspark asks the JVM for by a bare name, a thousand times for the plan of some
#: selectors. Where py4j doesn't know the name it searches eight packages, and so all jars, each
#: time: a quarter of the JVM's work for such a plan.
_ASKED_FOR = (
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
)
#: Extensions that Spark knows as packages of Python code.
_EXTENSIONS = tuple(SparkContext.PACKAGE_EXTENSIONS)

DELTA_CLASS = "io.delta.sql.DeltaSparkSessionExtension"

#: Seconds for one jar; the largest has 10 MB.
DOWNLOAD_SECONDS_MAX = 120


class SparkUnavailable(DistributaryError):
    """Java or the Delta jars are missing; the message names the remedy."""


#: Java's flag for its first compiler alone, which is right for jobs of seconds (`conf/spark.conf`).
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1"


def of_long_life() -> dict[str, str]:
    """Return settings of a session that runs for hours: Java's second compiler takes a minute's
    work, and then a message costs a third less."""
    name = "spark.driver.extraJavaOptions"
    return {name: defaults()[name].replace(_FIRST_COMPILER, "").strip()}


def session(settings: Mapping[str, str] | None = None, places: Iterable[str] = ()) -> SparkSession:
    """Return the Spark session of this process, made when there is none; with S3's client, if one
    of the `places` is there.

    `settings` win over `conf/spark.conf`; spark-submit's options win over both. A client of Spark
    Connect (SPARK_REMOTE, or an existing session) gets its own session, as the server has set it.
    Raises SparkUnavailable before any JVM starts when Java or a jar is missing.
    """
    if is_remote() or "SPARK_REMOTE" in os.environ:
        return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkSession.getActiveSession() is not None:
        # After a query the active session may be the copy that its batches had, without the views.
        # This is the session that was made first.
        return SparkSession.builder.getOrCreate()
    # Spark takes what `--py-files` names to its Python workers, but knows no wheel by its name.
    SparkContext.PACKAGE_EXTENSIONS = (*_EXTENSIONS, ".whl")
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        given = _adopt_jvm(s3=on_s3(places))
        wanted = _wanted(given.get("spark.master", LOCAL)) | dict(settings or {})
        wanted = {key: value for key, value in wanted.items() if key not in given}
    else:
        java = require_java()
        wanted = _wanted(LOCAL) | dict(settings or {})
        jars = delta_jars()
        more = maven_jars(S3_JARS) if on_s3(places) else []
        if wanted["spark.master"].partition("[")[0] == LOCAL:
            # Java archives classes of its own class path alone.
            own = wanted.get("spark.driver.extraClassPath")
            there = [*([own] if own else []), *map(str, jars)]
            wanted["spark.driver.extraClassPath"] = os.pathsep.join(there)
        else:  # executors are other processes, to which Spark takes these alone
            more = [*jars, *more]
        wanted["spark.jars"] = ",".join(map(str, more))
        options = wanted.get("spark.driver.extraJavaOptions", "")
        options = f"{options} -Dlog4j2.configurationFile={on_disk('log4j2.properties')}"
        wanted["spark.driver.extraJavaOptions"] = using(class_archive(java), options)
    # Workers import our code by name, even where it is neither installed nor in PYTHONPATH. Code in
    # a wheel comes to them by `--py-files`.
    code = Path(distributary.__file__).parents[1]
    if code.is_dir():
        wanted.setdefault("spark.executorEnv.PYTHONPATH", str(code))
    builder = SparkSession.builder
    for key, value in wanted.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    know_names()
    jvm, context = SparkContext._jvm, cast("Any", made).sparkContext
    on_cluster = not context.master.startswith(LOCAL)
    if on_cluster or elsewhere(places) or any(knows(jvm, name) for name in CLIENTS):
        add_log_store(jvm, context._jsc)
    return made


def know_names() -> None:
    """Tell py4j the classes that pyspark asks for by bare names: once for each connection."""
    for name in _ASKED_FOR:
        java_import(SparkContext._jvm, name)


def _wanted(master: str) -> dict[str, str]:
    """Return the settings of the file for this master, and those of object stores."""
    return defaults(master) | store_settings(os.environ)


def defaults(master: str = LOCAL) -> dict[str, str]:
    """Return `conf/spark.conf`, or `conf/spark-cluster.conf` for a Spark that isn't local."""
    name = "spark.conf" if master.startswith(LOCAL) else "spark-cluster.conf"
    lines = resources.files("distributary.conf").joinpath(name).read_text().splitlines()
    pairs = (line.split(None, 1) for line in lines if line.strip() and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def on_disk(name: str) -> Path:
    """Return a file of `conf` that Java can open, even when it comes in a wheel."""
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(
        resources.as_file(resources.files("distributary.conf").joinpath(name))
    )


def delta_jars() -> list[Path]:
    """Return the jars of Delta, by `maven_jars`."""
    return maven_jars(DELTA_JARS)


def maven_jars(jars: Iterable[tuple[str, str, str]]) -> list[Path]:
    """Return jars in the local Maven cache; download missing ones first."""
    maven = MavenContext(timeout=DOWNLOAD_SECONDS_MAX)
    try:
        return [
            maven.project(group, name).at_version(version).artifact().resolve()
            for group, name, version in jars
        ]
    except (OSError, RuntimeError, ValueError) as error:
        raise SparkUnavailable(
            f"The jars of Spark's tables could not be had from Maven Central ({error}): "
            "check the network, or put them in ~/.m2 once."
        ) from error


def class_archive(java: str) -> Path:
    """Return the path of the class archive, which need not exist, of this Java (`require_java`) and
    a session's first jars. Raises SparkUnavailable when a jar is missing."""
    of_spark = sorted(Path(_find_spark_home(), "jars").glob("*.jar"))
    return archive_of(java, [*delta_jars(), *of_spark])


def require_java() -> str:
    """Return the `-version` text of the Java that would be started. Raises SparkUnavailable unless
    it is of JAVA_MIN or newer."""
    said = _java_says(os.environ)
    version = _major(said)
    if version is None:
        raise SparkUnavailable(
            f"Spark needs Java {JAVA_MIN} or newer and there is none: "
            "install openjdk-17-jre-headless, or set JAVA_HOME."
        )
    if version < JAVA_MIN:
        raise SparkUnavailable(
            f"Spark needs Java {JAVA_MIN} or newer and this is Java {version}: "
            "install openjdk-17-jre-headless, or set JAVA_HOME to a newer one."
        )
    return said


def java_version(environment: Mapping[str, str]) -> int | None:
    """Return the major version of the Java that Spark would start, None when there is none."""
    return _major(_java_says(environment))


def _major(said: str) -> int | None:
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else None


def _java_says(environment: Mapping[str, str]) -> str:
    """Return the `-version` text of the Java that Spark would start; empty when there is none."""
    home = environment.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java", path=environment.get("PATH"))
    if java is None or not Path(java).exists():
        return ""
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    return f"{said.stderr}{said.stdout}"


def _adopt_jvm(*, s3: bool) -> dict[str, str]:
    """Make spark-submit's JVM know Delta, and S3; return the settings that it was given."""
    SparkContext._ensure_initialized()
    jvm = SparkContext._jvm
    given = dict(SparkConf(_jvm=jvm).getAll())
    needed = [("Delta", DELTA_CLASS, DELTA_JARS), *([("S3", S3_CLASS, S3_JARS)] if s3 else [])]
    for what, name, jars in needed:
        if knows(jvm, name):
            continue
        if not given.get("spark.master", LOCAL).startswith(LOCAL):
            group, artifact, version = jars[0]
            raise SparkUnavailable(
                f"A cluster's machines need the {what} jars: "
                f"give spark-submit `--packages {group}:{artifact}:{version}`, or `--jars`."
            )
        add_jars(jvm, maven_jars(jars))
    return given


def knows(jvm: object, name: str) -> bool:
    """Whether the JVM has this class."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[attr-defined]
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None


def add_jars(jvm: object, jars: Iterable[Path]) -> None:
    """Add jars as `--jars` does, for a local Spark: one class loader serves all of it."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()  # type: ignore[attr-defined]
    for jar in jars:
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())  # type: ignore[attr-defined]
