"""Names of a lake and of its logs, and names that contain a log's. A gateway with one log needs no
other module of lakes."""

import re
from typing import Final

#: The file that makes a home a lake, and the folder of its logs other than `main`.
PLACEMENT: Final = "lake.json"
LOGS: Final = "logs"
#: The folder below its home that a log has once it was served.
SERVED: Final = "tables/topic_log/_delta_log"
#: The file of a home that a restore is making: no gateway serves such a home.
RESTORING: Final = "restoring"
#: The log that is the home itself.
MAIN: Final = "main"
#: In the place of a log's name: the gateway owns no log. No log has this name.
NONE: Final = "none"
#: In the place of a log's name: the gateway serves any log without an owner. No log has this name.
ANY: Final = "any"
#: Prefix of private logs' names.
_PRIVATE: Final = f"{NONE}-"
#: More digits than a gateway's number has.
_DIGITS_MAX: Final = 18
#: A log's name is a folder, and a part of names of objects, addresses and metrics. It is in lower
#: case, as some file systems ignore case.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def log_below(root: str, log: str) -> str:
    """Return the address of a log's home in the lake at `root`."""
    return root if log == MAIN else f"{root}/{LOGS}/{log}"


def temporary_name(log: str, unique: str) -> str:
    """Return the name of a temporary destination of a log, which tells each gateway of a lake the
    log."""
    return f"{log}/{unique}"


def log_of_temporary(name: str) -> str:
    """Return the log in the name of a temporary destination."""
    log, mark, _ = name.partition("/")
    return log if mark and is_log_name(log) else MAIN


def private_log(number: int) -> str:
    """Return the private log of the gateway with this number, for its temporary destinations."""
    return f"{_PRIVATE}{number}"


def private_number(log: str) -> int | None:
    """Return the number of the gateway whose private log this is; None for a log of a lake."""
    said = log.removeprefix(_PRIVATE)
    number = int(said) if said != log and said.isdecimal() and len(said) < _DIGITS_MAX else 0
    return number if log == private_log(number) and number else None


def is_log_name(text: str) -> bool:
    """Whether a log may have this name."""
    return text not in {NONE, ANY} and _NAME.fullmatch(text) is not None
