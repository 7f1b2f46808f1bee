"""Outcomes of deliveries by address, passed on from another peer.

Runs on the event loop's thread only; the deliveries' link and connection must be alive. Zeros among
the addresses are skipped.
"""

from array import array
from typing import Any

from distributary.ingest.native.pump_library import ffi, lib

#: The delivery count with which messages are sent unchanged.
AS_IT_CAME: int = lib.AS_IT_CAME
#: Stands for a tag that isn't 8 bytes long.
NO_TAG = (1 << 64) - 1


def dispose(
    deliveries: "array[int]",
    state: int,
    *,
    failed: bool = False,
    undeliverable: bool = False,
    settles: bool = True,
    transaction: int = 0,
) -> None:
    """Give deliveries an outcome by its descriptor (0: none), in a transaction unless that is 0,
    and settle them, or (`settles` is false) wait for the other side to do that. `failed` and
    `undeliverable` are fields of `modified`."""
    said = state, failed, undeliverable, settles, transaction
    lib.pump_dispose(_addresses(deliveries), len(deliveries), *said)


def settled(deliveries: "array[int]") -> int:
    """Return how many of these deliveries, from the first one on, the other side has settled."""
    return int(lib.pump_settled(_addresses(deliveries), len(deliveries)))


def tags(deliveries: "array[int]") -> "array[int]":
    """Return the tags of incoming deliveries as numbers; `NO_TAG` for a tag of another size."""
    found = array("Q", bytes(8 * len(deliveries)))
    lib.pump_tags(_addresses(deliveries), len(deliveries), _addresses(found))
    return found


def accept_late(link: int) -> None:
    """Accept no message of this incoming link on receipt: another peer decides its outcome."""
    lib.pump_accept_late(link)


def _addresses(numbers: "array[int]") -> Any:
    return ffi.from_buffer("uint64_t[]", numbers)
