"""Messages as lines of text: input of `publish`, output of `consume`.

A line is a message's body. As JSON it is an object: `body`, or `body_base64` where that is no text,
`subject`, `correlation_id`, `reply_to`, `group`, `priority`, `ttl_ms`, `properties`; lines of
`consume` have `id`, `address` and `deliveries`, too, which `publish` ignores. So `publish` reads
the lines that `consume` writes, but for those of messages that can't be read: such a line has the
whole message, in `message_base64`, and the reason, in `unreadable`. Bytes within bodies and
properties are written as base64, other values that JSON lacks as their text.
"""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

from distributary.client import Message, ReceivedMessage
from distributary.client.outgoing_message import Plain
from distributary.pipeline.codec.amqp_types import DecodeError
from distributary.pipeline.errors import InvalidRequest

#: Keys that only `consume` writes.
TOLD = frozenset({"id", "address", "deliveries"})
#: Headers that are texts.
_TEXTS = ("subject", "reply_to", "group")
_NUMBERS = ("priority", "ttl_ms")
KEYS = frozenset({"body", "body_base64", "correlation_id", "properties", *_NUMBERS, *_TEXTS, *TOLD})


def message_of(
    text: str, *, as_json: bool, where: str, properties: Mapping[str, Plain] = {}
) -> Message:
    """Return the message of a line, with these application properties, too. Raises InvalidRequest,
    which names the line by `where`."""
    if not as_json:
        return Message(body=text, properties=properties)
    try:
        said = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"{where} isn't JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest(
            f"{where} can't be read: its values lie too deep in each other"
        ) from None
    if not isinstance(said, dict):
        raise InvalidRequest(f'{where} isn\'t an object, such as {{"body": "one pizza"}}')
    if unknown := said.keys() - KEYS:
        known = ", ".join(sorted(KEYS - TOLD))
        raise InvalidRequest(f"{where} says {', '.join(sorted(unknown))}; known are {known}")
    own = properties_of(said.get("properties") or {}, f"{where}: properties")
    texts = {key: _checked(said[key], str, f"{where}: {key}") for key in _TEXTS if key in said}
    priority = priority_of(_checked(said.get("priority", 4), int, f"{where}: priority"))
    ttl = _checked(said["ttl_ms"], int, f"{where}: ttl_ms") / 1_000 if "ttl_ms" in said else None
    answered = said.get("correlation_id")
    if answered is not None and type(answered) is not int:  # AMQP's ids may be numbers
        _checked(answered, str, f"{where}: correlation_id")
    return Message(
        body=_body(said, where),
        correlation_id=answered,
        properties={**own, **properties},
        priority=priority,
        ttl=ttl,
        **texts,
    )


def priority_of(value: int) -> int:
    """Return a valid priority. Raises InvalidRequest."""
    if not 0 <= value <= 9:
        raise InvalidRequest(f"a priority is a number from 0 to 9, not {value}")
    return value


def properties_of(said: object, where: str) -> dict[str, Plain]:
    """Return application properties: names and simple values. Raises InvalidRequest."""
    if not isinstance(said, Mapping):
        raise InvalidRequest(f"{where} is an object of names and values")
    for name, value in said.items():
        if not isinstance(value, str | int | float | bool | None):
            raise InvalidRequest(f"{where}: {name} is no text, number, true, false or null")
    return dict(said)


def line_of(message: ReceivedMessage, *, as_json: bool) -> str:
    """Return the line of a received message, one that can't be read, too."""
    try:
        return _json_of(message) if as_json else _text_of(message)
    except DecodeError as error:
        data = message.data
        if not as_json:
            return f"(can't be read: {error}; {len(data)} bytes, which --json prints)"
        whole = {"message_base64": base64.b64encode(data).decode(), "unreadable": str(error)}
        return json.dumps(whole)


def harmless(text: str) -> str:
    """Return a text for a terminal, which may not obey a message: characters that control it, or
    turn the direction of writing, are written as escapes."""
    return "".join(
        one if one.isprintable() or one in "\n\t" else one.encode("unicode_escape").decode()
        for one in text
    )


def _text_of(message: ReceivedMessage) -> str:
    body = message.body
    if isinstance(body, bytes):
        return body.decode(errors="backslashreplace")
    return body if isinstance(body, str) else json.dumps(_shown(body))


def _json_of(message: ReceivedMessage) -> str:
    body = message.body
    said: dict[str, Any] = {"id": message.id, "address": message.to}
    said["body_base64" if isinstance(body, bytes) else "body"] = body
    said["correlation_id"] = message.correlation_id
    for key in _TEXTS:
        said[key] = getattr(message, key)
    said["priority"] = message.priority if message.priority != 4 else None
    said["ttl_ms"] = None if message.ttl is None else round(message.ttl * 1_000)
    said["properties"] = message.properties or None
    said["deliveries"] = message.delivery_count + 1
    return json.dumps({key: _shown(one) for key, one in said.items() if one is not None})


def _shown(value: object) -> object:
    """Return a value as JSON can have it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(key): _shown(one) for key, one in value.items()}
        case list():
            return [_shown(one) for one in value]
        case float() if not math.isfinite(value):
            return str(value)
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)


def _body(said: Mapping[str, Any], where: str) -> Any:
    if "body" in said and "body_base64" in said:
        raise InvalidRequest(f"{where} says body and body_base64: one of them")
    if "body_base64" not in said:
        return said.get("body")
    try:
        return base64.b64decode(_checked(said["body_base64"], str, where), validate=True)
    except ValueError:
        raise InvalidRequest(f"{where}: body_base64 isn't base64") from None


def _checked(value: object, kind: type, what: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidRequest(f"{what} isn't a {'number' if kind is int else 'text'}: {value!r}")
    return value
