"""AMQP's error conditions: why the other side has ended a link or rejected a message."""

from typing import Any

import cproton
from cproton import lib as proton

from distributary.pipeline.codec.amqp_codes import Descriptor

#: Property in a broker's open when a close with an error follows (as Qpid's clients know it).
_WILL_CLOSE = "amqp:connection-establishment-failed"
#: Steps from a transactional state to its error's fields: go on by so many values, then enter.
_TO_ERROR = (1, 2, 2, 1, 2)


def told(condition: Any) -> tuple[str, str]:
    """Return name and description of a condition; empty where there is none."""
    if not proton.pn_condition_is_set(condition):
        return "", ""
    name = cproton.pn_condition_get_name(condition)
    return name or "", cproton.pn_condition_get_description(condition) or ""


def tell(condition: Any, name: str, description: str) -> None:
    """Set the condition with which this side ends a link, session or connection."""
    cproton.pn_condition_set_name(condition, name)
    cproton.pn_condition_set_description(condition, description)


def reason(delivery: int) -> tuple[str, str]:
    """Return condition and description of the other side's rejection of a delivery."""
    pointer = cproton.ffi.cast("pn_delivery_t *", delivery)
    remote = proton.pn_delivery_remote(pointer)
    if proton.pn_delivery_remote_state(pointer) == Descriptor.TRANSACTIONAL_STATE:
        return _told_in(proton.pn_disposition_data(remote))
    return told(proton.pn_disposition_condition(remote))


def _told_in(state: Any) -> tuple[str, str]:
    """Read them in a transactional state: [id, rejected [error [condition, description]]]."""
    proton.pn_data_rewind(state)
    for steps in _TO_ERROR:
        if not (
            all(proton.pn_data_next(state) for _ in range(steps)) and proton.pn_data_enter(state)
        ):
            return "", ""
    found = [cproton.pn_data_get_symbol(state) if proton.pn_data_next(state) else ""]
    found.append(cproton.pn_data_get_string(state) if proton.pn_data_next(state) else "")
    return found[0] or "", found[1] or ""


def too_large(most: int) -> tuple[str, str]:
    """Return condition and description for a received message over the limit."""
    text = f"a message is larger than {most} bytes (connection.message_bytes_max)"
    return "amqp:link:message-size-exceeded", text


def hung_up(url: str, error: Exception | None, plain: bool) -> str:
    """Return the sentence for a lost connection; `plain`: before its login, and without TLS."""
    if plain:
        return f"{url} hung up before the login: if it wants TLS, say amqps://"
    return f"the connection to {url} is lost" + (f": {error}" if error else "")


def will_close(connection: Any) -> bool:
    """Whether a broker that has opened a connection is about to close it."""
    data = proton.pn_connection_remote_properties(connection)
    proton.pn_data_rewind(data)
    return bool(
        proton.pn_data_next(data)
        and proton.pn_data_enter(data)
        and cproton.pn_data_lookup(data, _WILL_CLOSE)
    )
