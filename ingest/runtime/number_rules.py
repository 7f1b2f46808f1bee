"""Bounds of each number of the settings by itself: not negative, and no more than clocks, counters
and AMQP's fields can hold."""

import msgspec

from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.subscriptions.policy_table import COUNT_MOST, MS_MOST

#: Most, by the unit at the end of a name; a century of days, a year of seconds.
BY_UNIT = {"_ms": MS_MOST, "_ms_max": MS_MOST, "_days": 36_500, "_seconds": 366 * 24 * 3_600}
#: Most of narrower fields of AMQP, and of credit, which the engine counts with a sign.
BY_NAME = {
    "amqp.idle_timeout_ms": 2**32 - 1,
    "amqp.frame_bytes_max": 2**32 - 1,
    "amqp.producer_credit": 2**31 - 1,
    "management.requests_max": 2**31 - 1,
}
#: Least, where it isn't 0.
LEAST = {"upkeep.retention_seconds": -1}


def rules(settings: Settings) -> list[tuple[bool, str]]:
    """Return for each number whether it is in its bounds, and the error's sentence."""
    found = []
    for section in settings.__struct_fields__:
        table = getattr(settings, section)
        if not isinstance(table, msgspec.Struct):
            continue  # policies: `pipeline.subscriptions.policy_table` reads them
        for key in table.__struct_fields__:
            value = getattr(table, key)
            if isinstance(value, int) and not isinstance(value, bool):
                name = f"{section}.{key}"
                least, most = LEAST.get(name, 0), _most(name)
                said = f"{name} must be a whole number from {least} to {most}"
                found.append((least <= value <= most, said))
    return found


def _most(name: str) -> int:
    if name in BY_NAME:
        return BY_NAME[name]
    return next((most for unit, most in BY_UNIT.items() if name.endswith(unit)), COUNT_MOST)
