"""Where the log's table lies, as the settings say."""

from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.tables.delta.store import LocalStore, Store
from distributary.pipeline.tables.home.home import Home


def table_store(home: Home, settings: Settings) -> Store:
    """In the home, or under `tables.url`. Raises InvalidRequest for an address that can't be."""
    url = settings.tables.url.rstrip("/")
    if not url:
        return LocalStore(home.topic_log)
    # Loading the client of object stores takes a while, and most homes need none.
    from distributary.pipeline.tables.delta.object_store import ObjectStore  # noqa: PLC0415

    return ObjectStore(f"{url}/topic_log", settings.tables.storage_options)
