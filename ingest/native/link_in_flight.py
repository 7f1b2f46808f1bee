"""Deliveries of an outgoing link that have no outcome, read from Proton (`pump_held`).

Runs on the event loop's thread only; the link must be alive.
"""

import sys
from array import array
from typing import TypeAlias

from distributary.ingest.native.pump_library import ffi, lib

#: Sequences, and the time of each one's delivery (microseconds), in the order of delivery.
Deliveries: TypeAlias = "tuple[array[int], array[int]]"


def in_flight(link: int) -> Deliveries:
    """Return the deliveries without an outcome of the link at this address; 20 ns for each."""
    count = lib.pump_held(link, ffi.NULL, ffi.NULL, 0)
    sequences, times = (array("Q", bytes(8 * count)) for _ in range(2))
    found = (ffi.from_buffer("uint64_t[]", one) for one in (sequences, times))
    lib.pump_held(link, *found, count)
    return sequences, times


def mark(delivery: int, delivered_at: int) -> None:
    """Give a delivery that `pump.send` hasn't made a time, so that its outcome is reported, too."""
    addresses = delivery.to_bytes(8, sys.byteorder)
    settled = ffi.from_buffer("uint8_t[]", bytearray(1))
    lib.pump_restore(ffi.from_buffer("uint64_t[]", addresses), 1, delivered_at, settled)
