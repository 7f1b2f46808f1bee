"""Errors of the engine about a peer's bytes.

Such an error quotes the bytes as they came, and cuts them where its room ends: in the middle of a
character, too.
"""

from typing import Any

import msgspec
from cproton import ffi
from cproton import lib as proton
from proton import ProtonException

from distributary.pipeline.errors import DistributaryError

#: What Proton's Python getters raise on a peer's broken values.
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
    """A condition and a sentence."""

    condition: str
    description: str


#: Where the engine has no word for what is wrong.
NO_FRAME = EngineError("amqp:connection:framing-error", "what came is no AMQP frame")


def engine_error(transport: Any) -> EngineError | None:
    """The error for which the engine has ended a transport (its C object), if it has one. What is
    no text of its sentence is left out, also of what the engine says in its own close."""
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
