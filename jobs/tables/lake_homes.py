"""The logs of a lake on a disk, for jobs that do one after another."""

from pathlib import Path

from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.lake.disk_lake import disk_lake


def served_homes(home: Path) -> dict[str, Path]:
    """The homes of the logs of a lake that were served, by their logs; none where the home is no
    lake. Raises StoreError for a placement that can't be read."""
    lake = disk_lake(home)
    if lake is None:
        return {}
    homes = {log: Path(lake.log_home(log)) for log in lake.placement().logs}
    return {log: place for log, place in homes.items() if Home(place).topic_log.is_dir()}
