"""Errors of the engine about a peer's bytes.

Such an error quotes the peer's bytes unchanged, and cuts them where its buffer ends, perhaps in the
middle of a character.
"""

from typing import Any

import msgspec
from cproton import ffi
from cproton import lib as proton
from proton import ProtonException

from distributary.pipeline.errors import DistributaryError

#: Exceptions of Proton's Python getters on a peer's broken values.
BROKEN_VALUES = (
    ProtonException,
    UnicodeError,
    ValueError,
    TypeError,
    RecursionError,
    OverflowError,
)


class BrokenFrame(DistributaryError):
    """A value in a peer's frame can't be read."""


class EngineError(msgspec.Struct, frozen=True):
    """An error of the engine: a condition and a sentence."""

    condition: str
    description: str


#: The error where the engine reports none.
NO_FRAME = EngineError("amqp:connection:framing-error", "what came is no AMQP frame")


def engine_error(transport: Any) -> EngineError | None:
    """Return the error for which the engine has ended a transport (its C object), if any. Bytes
    that aren't UTF-8 are left out of its sentence, also in the engine's own close."""
    error = proton.pn_transport_condition(transport)
    if not proton.pn_condition_is_set(error):
        return None
    said = _bytes(proton.pn_condition_get_description(error))
    text = said.decode(errors="ignore")
    if text.encode() != said:
        proton.pn_condition_set_description(error, text.encode())
    return EngineError(_bytes(proton.pn_condition_get_name(error)).decode(), text)


def _bytes(pointer: Any) -> bytes:
    return bytes(ffi.string(pointer)) if pointer else b""
