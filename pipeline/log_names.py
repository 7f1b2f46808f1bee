"""Names of the logs of a lake."""

import re
from typing import Final

#: The log that is the home itself.
MAIN: Final = "main"
#: What a gateway says that owns no log; so no log has this name.
NONE: Final = "none"
#: What a gateway says that serves whichever log has no owner; nor this one.
ANY: Final = "any"
#: A log's name is a folder, a part of an object's name, of addresses and of metrics. It has one
#: case alone: some disks don't tell them apart.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def is_log_name(text: str) -> bool:
    """Whether a log may be called so."""
    return text not in {NONE, ANY} and _NAME.fullmatch(text) is not None
