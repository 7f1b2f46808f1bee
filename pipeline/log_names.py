"""Names of a lake and of its logs, and names that say a log. A gateway with one log needs no more
of lakes than this."""

import re
from typing import Final

#: What makes a home a lake, and where logs are in it that aren't the home itself.
PLACEMENT: Final = "lake.json"
LOGS: Final = "logs"
#: What a log that was served has, below its home.
SERVED: Final = "tables/topic_log/_delta_log"
#: The log that is the home itself.
MAIN: Final = "main"
#: What a gateway says that owns no log; so no log has this name.
NONE: Final = "none"
#: What a gateway says that serves whichever log has no owner; nor this one.
ANY: Final = "any"
#: How private logs begin.
_PRIVATE: Final = f"{NONE}-"
#: More than the number of a gateway has.
_DIGITS_MAX: Final = 18
#: A log's name is a folder, a part of an object's name, of addresses and of metrics. It has one
#: case alone: some disks don't tell them apart.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def log_below(root: str, log: str) -> str:
    """The address of a log's home in the lake at `root`."""
    return root if log == MAIN else f"{root}/{LOGS}/{log}"


def temporary_name(log: str, unique: str) -> str:
    """The name of a temporary destination of a log, so that each gateway of a lake knows where it
    is."""
    return f"{log}/{unique}"


def log_of_temporary(name: str) -> str:
    """The log that the name of a temporary destination says."""
    log, mark, _ = name.partition("/")
    return log if mark and is_log_name(log) else MAIN


def private_log(number: int) -> str:
    """The log of the temporary destinations of a gateway that owns none, by its number."""
    return f"{_PRIVATE}{number}"


def private_number(log: str) -> int | None:
    """The number of the gateway whose private log this is; None if it is a lake's."""
    said = log.removeprefix(_PRIVATE)
    number = int(said) if said != log and said.isdecimal() and len(said) < _DIGITS_MAX else 0
    return number if log == private_log(number) and number else None


def is_log_name(text: str) -> bool:
    """Whether a log may be called so."""
    return text not in {NONE, ANY} and _NAME.fullmatch(text) is not None
