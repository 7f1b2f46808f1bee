"""Deliveries to a coordinator, and deliveries whose outcome is part of a transaction, one by one.

Everything here runs on the event loop's thread only; the caller must know that the deliveries'
link and connection are still alive.
"""

from typing import Any

from cproton import ffi as proton_ffi
from cproton import lib as proton
from proton import Data, Described, symbol, ulong

from distributary.ingest.native.pump import REJECTED
from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.amqp.coordinator_command import id_of
from distributary.pipeline.codec.amqp_codes import Descriptor


def take(delivery: int) -> tuple[bytes, bool]:
    """Return the message that stopped the pump with COMMAND, and whether it came settled."""
    which = proton_ffi.cast("pn_delivery_t *", delivery)
    size = proton.pn_delivery_pending(which)
    room = bytearray(size)
    lib.pump_take(delivery, ffi.from_buffer(room), size)
    settled = bool(proton.pn_delivery_settled(which))
    if settled:
        proton.pn_delivery_settle(which)
    return bytes(room), settled


def begun(link: int) -> bool:
    """Whether the message that has arrived in part on a link is part of a transaction."""
    one = proton.pn_link_current(proton_ffi.cast("pn_link_t *", link))
    return bool(one) and proton.pn_delivery_remote_state(one) == Descriptor.TRANSACTIONAL_STATE


def declared(delivery: bytes, transaction: int) -> None:
    """Answer a declare, by the address of its delivery, with the transaction's number (AMQP 1.0
    part 4, section 4.5.5)."""
    for one in memoryview(delivery).cast("Q"):
        lib.pump_declared(one, transaction)


def settle_in(deliveries: bytes, transaction: int, outcome: int) -> None:
    """Settle deliveries by address with an outcome in a transaction; zeros are skipped."""
    addresses = ffi.from_buffer("uint64_t[]", deliveries)
    lib.pump_settle_in(addresses, len(deliveries) // 8, transaction, outcome)


def restore(deliveries: bytes, delivered_at: int) -> bytes:
    """Take back the outcome that these deliveries had in a transaction. Return one byte for each: 1
    if the peer has settled the delivery since, and can't give another outcome."""
    count = len(deliveries) // 8
    settled = bytearray(count)
    addresses = ffi.from_buffer("uint64_t[]", deliveries)
    lib.pump_restore(addresses, count, delivered_at, ffi.from_buffer("uint8_t[]", settled))
    return bytes(settled)


def reject_in(deliveries: bytes, transaction: int, condition: str, description: str) -> None:
    """Settle deliveries by address as rejected in a transaction; zeros are skipped."""
    error = Described(ulong(Descriptor.ERROR), [symbol(condition), description])
    for one in memoryview(deliveries).cast("Q"):
        if one:
            delivery = proton_ffi.cast("pn_delivery_t *", one)
            state: Any = Data(proton.pn_disposition_data(proton.pn_delivery_local(delivery)))
            state.clear()
            state.put_object([id_of(transaction), Described(ulong(REJECTED), [error])])
            proton.pn_delivery_update(delivery, Descriptor.TRANSACTIONAL_STATE)
            proton.pn_delivery_settle(delivery)
