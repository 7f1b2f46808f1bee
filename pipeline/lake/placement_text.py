"""A placement as `lake.json` has it."""

from typing import Final

import msgspec

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.lake.placement import Placement

#: What takes an unsound lake.json back to a sound one.
_REPAIR: Final = "Put back the one of a backup, or start the version of the program that wrote it"


def read_placement(said: bytes, where: str) -> Placement:
    """What a lake.json says. Raises StoreError."""
    try:
        return msgspec.json.decode(said, type=Placement)
    except (msgspec.MsgspecError, UnicodeDecodeError, InvalidRequest, RecursionError) as error:
        raise StoreError(f"{where} can't be understood: {error}. {_REPAIR}") from error
