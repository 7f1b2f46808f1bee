"""The homes of gateways as jobs know them: on a disk, or on a store by Hadoop's addresses; and the
logs of a lake, for jobs that do one after another."""

import os
from typing import TYPE_CHECKING

import msgspec

from distributary.jobs.tables.folders import local
from distributary.jobs.tables.object_stores import spark_address
from distributary.pipeline.errors import StoreError
from distributary.pipeline.log_names import SERVED
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.lake.disk_lake import disk_lake
from distributary.pipeline.tables.lake.lake import Lake

if TYPE_CHECKING:
    from distributary.pipeline.tables.object_home.object_home import ObjectHome


class JobHome(msgspec.Struct, frozen=True):
    """A home by its path or address; both have the same layout."""

    root: str

    @property
    def topic_log(self) -> str:
        return f"{self.root}/tables/topic_log"

    @property
    def tables(self) -> str:
        """The folder of Spark's tables."""
        return f"{self.root}/tables"

    def checkpoint(self, query: str) -> str:
        """Return the folder of a query's checkpoint."""
        return f"{self.root}/checkpoints/{query}"

    @property
    def is_served(self) -> bool:
        """Whether its topic_log is begun. Raises StoreError when its store doesn't answer."""
        if (path := local(self.root)) is not None:
            return (path / SERVED).is_dir()
        try:
            return _objects(self.root).store(_REQUEST_SECONDS).has_any(SERVED)
        except OSError as error:
            raise StoreError(f"{self.root} can't be used: {error}. See to its store") from error


#: Seconds that one look at a store may take.
_REQUEST_SECONDS = 5.0


def job_home(home: str) -> JobHome:
    """Return the home at a path or an address. Raises InvalidRequest for an incomplete address."""
    path = local(home)
    if path is not None:
        return JobHome(str(Home(path).root))
    return JobHome(spark_address(home.rstrip("/"), os.environ))


def lake_of(home: str) -> Lake | None:
    """Return the lake at this home; None where it is none. Raises StoreError when its store doesn't
    answer."""
    path = local(home)
    if path is not None:
        return disk_lake(path)
    # Loading the client of object stores takes a while, and most homes need none.
    from distributary.pipeline.tables.lake.object_lake import object_lake  # noqa: PLC0415

    return object_lake(_objects(home.rstrip("/")))


def served_homes(home: str) -> dict[str, JobHome]:
    """Return the homes of a lake's logs that were served, by log; none where the home is no lake.
    Raises StoreError for a placement that can't be read."""
    lake = lake_of(home)
    if lake is None:
        return {}
    homes = {log: job_home(lake.log_home(log)) for log in lake.placement().logs}
    return {log: one for log, one in homes.items() if one.is_served}


def whole_lake(home: str | None, *others: str | None) -> dict[str, JobHome]:
    """Return `served_homes`, if only the home is given; else none."""
    if home is None or any(one is not None for one in others):
        return {}
    return served_homes(home)


def _objects(root: str) -> "ObjectHome":
    """Return a home on a store, with keys of the environment."""
    from distributary.pipeline.tables.object_home.object_home import ObjectHome  # noqa: PLC0415 (as above)

    return ObjectHome(root, {})
