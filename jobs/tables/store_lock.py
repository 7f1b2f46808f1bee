"""One job at a time writes Spark's tables on an object store: the owner of a lease.

The lease only says when to try. Safety rests on names of objects:
Rule 1: a version is made by a put that is refused if it is there, and only after the lease was seen
        to name this job (`jobs/tables/ConditionalLogStore.java`).
Rule 2: a job that takes the lease of a job that ended without giving it back makes a version of
        each table. So the former job, when it wakes, can't put a commit that it had begun; and it
        begins new ones only after it has read the lease.
Rule 3: a former job removes no file that a later one has written: VACUUM makes a version between
        its list of files and their removal (`jobs.upkeep.spark_upkeep`), and a table's folder is
        only removed when it is empty.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from delta.tables import DeltaTable
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from distributary.jobs.tables.delta_commit import make_version
from distributary.jobs.tables.delta_files import HADOOP_PATH, java_class
from distributary.jobs.tables.object_stores import LOG_STORE
from distributary.jobs.tables.spark_tables import typed_names
from distributary.pipeline.errors import BeatFailed, HomeLost, StoreError, TablesLocked
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.object_home.lease import (
    BEATS,
    Claim,
    LeaseHeld,
    LeaseOwner,
    LeaseStandby,
    StoreLease,
    acquired,
    renewed,
    request_seconds,
    shown_life,
)
from distributary.pipeline.tables.object_home.store_conditions import keeps_conditions
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS

#: The lease, in the folder of the tables.
NAME: Final = ".writer"


@contextmanager
def leased(
    spark: SparkSession, folder: str, job: str, seconds: float, stop: Callable[[], bool]
) -> Iterator[None]:
    """Be the only writer of the tables in `folder` while the block runs. A job that doesn't renew
    its lease for `seconds` loses it; this blocks for them where another job ended without giving
    it back. Raises TablesLocked when another job lives, or has taken the tables over meanwhile;
    StoreError when the store doesn't answer, or ignores conditions; StopAsked when `stop` returns
    true meanwhile."""
    lease = _lease(folder, seconds)
    try:
        owner = acquired(LeaseStandby(lease, job=job, since=int(time.time())), lease, stop)
    except LeaseHeld as held:
        raise _locked(folder, held.claim) from None
    failed = True
    try:
        with renewed(owner, lease.seconds / BEATS):
            _require_conditions(lease.store, folder)
            at = java_class(spark, HADOOP_PATH)(folder).toString()  # as Delta's paths begin
            java_class(spark, LOG_STORE).take(at, f"{at}/{NAME}", owner.name)
            if not owner.follows_farewell:
                _fence(spark, folder)
            yield
        failed = not _lives(spark)  # a signal may have ended the JVM in a commit, and the job well
    except Exception as error:
        if _lost(owner):
            raise _taken_over(lease, _claim(lease)) from error
        raise
    finally:
        owner.release(unsure=failed)


def require_no_lease(folder: str, seconds: float) -> None:
    """Raise TablesLocked when a job renews its lease: to know it before a JVM starts. `leased`
    waits for one that doesn't. Raises StoreError when the store doesn't answer."""
    try:
        claim, lives = shown_life(_lease(folder, seconds))
    except OSError as error:
        raise _silent(folder, error) from error
    if lives:
        raise _locked(folder, claim)


def _lease(folder: str, seconds: float) -> StoreLease:
    store = ObjectStore(folder, {}, seconds_max=request_seconds(seconds))
    return StoreLease(folder, store, NAME, seconds, f"the tables in {folder} have another writer")


def _lives(spark: SparkSession) -> bool:
    """Whether the JVM answers, so that no commit of it is still under way."""
    try:
        java_class(spark, "java.lang.System").nanoTime()
    except (Py4JError, OSError):
        return False
    return True


def _require_conditions(store: ObjectStore, folder: str) -> None:
    try:
        kept = keeps_conditions(store)
    except OSError as error:
        raise _silent(folder, error) from error
    if not kept:
        raise StoreError(
            f"the tables in {folder} can't be written: their store ignores conditions of puts, so "
            "two jobs could make the same version. Name another store"
        )


def _fence(spark: SparkSession, folder: str) -> None:
    """Make a version of each table, so that commits of a former job fail."""
    for name in (*SCHEMAS, *typed_names(spark, folder)):
        if DeltaTable.isDeltaTable(spark, f"{folder}/{name}"):
            make_version(spark, f"{folder}/{name}")


def _lost(owner: LeaseOwner) -> bool:
    """Whether another job has the lease, as far as is known."""
    try:
        owner.beat()
    except HomeLost:
        return True
    except BeatFailed:
        return False
    return False


def _claim(lease: StoreLease) -> Claim | None:
    """Return the lease's claim; None if it can't be read."""
    try:
        seen = LeaseStandby(lease).look()
    except OSError as error:
        raise _silent(lease.url, error) from error
    return None if seen is None else seen.claim


def _silent(folder: str, error: OSError) -> StoreError:
    return StoreError(
        f"the tables in {folder} can't be used: {error}. See to the store, its address and its keys"
    )


def _who(claim: Claim | None) -> str:
    if claim is None:
        return "another process"
    since = datetime.fromtimestamp(claim.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"`{claim.job}` with pid {claim.pid} on {claim.host}, since {since}"


def _locked(folder: str, claim: Claim | None) -> TablesLocked:
    return TablesLocked(
        f"The tables in {folder} are being written by {_who(claim)}: one process at a time writes "
        "them. Wait until it is done, or stop it first."
    )


def _taken_over(lease: StoreLease, claim: Claim | None) -> TablesLocked:
    return TablesLocked(
        f"The tables in {lease.url} were taken over by {_who(claim)}: this job showed no sign of "
        f"life for {lease.seconds:g} s (tables.lease_seconds). Its commits stay, it made no "
        "others."
    )
