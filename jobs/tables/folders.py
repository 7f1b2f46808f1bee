"""Checks of folders that a user named, before a JVM starts; of those on this machine alone."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.tables.home.home import make_folder


def local(place: str) -> Path | None:
    """Return the path of a place; None when it isn't on a disk of this machine."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(parts.path)
    return None if "://" in place else Path(place)


def require_tables(place: str) -> None:
    """Raise InvalidRequest unless Spark's tables may lie in `place`: a folder that can be read."""
    path = local(place)
    if path is None:
        return
    try:
        there = path.is_dir()
    except OSError as error:
        raise InvalidRequest(
            f"The tables in {place} can't be read: {error.strerror}. See to its rights and its "
            "disk, or name another folder."
        ) from error
    if not there:
        raise InvalidRequest(
            f"There are no tables in {place}: run `distributary jobs materialize` first."
        )


def make_writable(place: str, says: str) -> None:
    """Make the folder `place`, if it is absent; `says` names its purpose. Raises InvalidRequest
    where no folder can be, StoreError where it may not be written."""
    path = local(place)
    if path is None:
        return
    make_folder(path, says)
    if not os.access(path, os.W_OK | os.X_OK):
        raise StoreError(f"{place} can't be {says}: Permission denied. See to its rights")
