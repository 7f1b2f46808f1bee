"""A placement in the form of `lake.json`."""

from typing import Final

import msgspec

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.lake.placement import Placement

#: Advice for a lake.json that can't be understood.
_REPAIR: Final = "Put back the one of a backup, or start the version of the program that wrote it"


def read_placement(said: bytes, where: str) -> Placement:
    """Parse a lake.json. Raises StoreError."""
    try:
        return msgspec.json.decode(said, type=Placement)
    except (msgspec.MsgspecError, UnicodeDecodeError, InvalidRequest, RecursionError) as error:
        raise StoreError(f"{where} can't be understood: {error}. {_REPAIR}") from error
