"""Where messages say themselves that they go."""

from array import array

from distributary.ingest.native import pump
from distributary.ingest.native.runs import Received


def addresses(received: Received) -> list[tuple[str, int]]:
    """The address of each message, empty where it names none, and what of `pump.destinations` says
    its kind."""
    offsets = array("i", bytes(pump.offsets(received.lengths, received.count)))
    at, size = array("I", received.to_at), array("I", received.to_size)
    blob = received.blob
    texts = (
        _text(blob[start + at[i] : start + at[i] + size[i]]) for i, start in enumerate(offsets[:-1])
    )
    return list(zip(texts, pump.destinations(received), strict=True))


def _text(address: bytes) -> str:
    """The address, or nothing where it is no UTF-8: it names no topic either way."""
    try:
        return address.decode()
    except UnicodeDecodeError:
        return ""
