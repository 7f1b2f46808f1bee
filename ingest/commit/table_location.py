"""Locations by the settings: a home without a disk, the log's table, the lake that a home is."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log_names import PLACEMENT
from distributary.pipeline.tables.delta.store import LocalStore, Store
from distributary.pipeline.tables.home.home import Home

if TYPE_CHECKING:
    from distributary.pipeline.tables.lake.lake import Lake
    from distributary.pipeline.tables.object_home.object_home import ObjectHome

#: Seconds that the request whether a home is a lake may take.
_REQUEST_SECONDS = 5.0
#: The stores in which a home may be, by the scheme of its address.
STORES = ("s3", "gs", "az", "abfs", "abfss")


def is_address(home: str) -> bool:
    """Whether a home is named by an address of a store, and not by a path."""
    return "://" in home


def table_store(home: Home, settings: Settings) -> Store:
    """Return the table's store: in the home, or under `tables.url`. Raises InvalidRequest for an
    invalid address."""
    url = settings.tables.url.rstrip("/")
    if not url:
        return LocalStore(home.topic_log)
    # Loading the client of object stores takes a while, and most homes need none.
    from distributary.pipeline.tables.delta.object_store import ObjectStore  # noqa: PLC0415

    return ObjectStore(f"{url}/topic_log", settings.tables.storage_options)


def object_home(address: str, settings: Settings) -> "ObjectHome":
    """Return the home at a store's address. Raises InvalidRequest for another address."""
    from distributary.pipeline.tables.object_home.object_home import ObjectHome  # noqa: PLC0415 (as above)

    store, _, place = address.partition("://")
    if store not in STORES or not place.strip("/"):
        known = ", ".join(f"{one}://" for one in STORES)
        text = f"--home {address}: it may be a folder, or STORE://BUCKET/PREFIX with one of {known}"
        raise InvalidRequest(text)
    return ObjectHome(address.rstrip("/"), settings.tables.storage_options)


def table_url(home: "ObjectHome", settings: Settings) -> str:
    """Return the address of the log's table of a home without a disk."""
    return f"{settings.tables.url.rstrip('/') or home.tables}/topic_log"


def is_lake(address: str, settings: Settings) -> bool:
    """Whether the home at this address is a lake. Blocks; no code of lakes is loaded. Raises
    InvalidRequest for an invalid address, StoreError when its store doesn't answer."""
    if not is_address(address):
        return os.path.exists(Path(address) / PLACEMENT)  # noqa: PTH110 (raises nothing)
    store = object_home(address, settings).store(_REQUEST_SECONDS)
    try:
        return store.exists(PLACEMENT)
    except OSError as error:
        raise StoreError(f"{address} can't be used: {error}. See to its store") from error


def lake_at(address: str, settings: Settings) -> "Lake | None":
    """Return the lake at this address; None where the home is no lake. Blocks. Raises as
    `is_lake`."""
    return new_lake(address, settings) if is_lake(address, settings) else None


def new_lake(address: str, settings: Settings) -> "Lake":
    """Return the lake at this address, whether it has been made or not. Raises InvalidRequest for
    an invalid address."""
    # Loading the client of object stores takes a while, and most homes need none.
    if is_address(address):
        from distributary.pipeline.tables.lake.object_lake import ObjectLake  # noqa: PLC0415 (as above)

        return ObjectLake(object_home(address, settings))
    from distributary.pipeline.tables.lake.disk_lake import DiskLake  # noqa: PLC0415 (as above)

    return DiskLake(Path(address))
