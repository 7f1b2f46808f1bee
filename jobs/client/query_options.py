"""Options of a query, by names in any case: each wrong one raises one sentence."""

from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from distributary.pipeline.errors import InvalidRequest

#: The options for the connection to a gateway, and their meaning.
GATEWAY = {
    "gateway": "amqp://user:password@host:port, or host:port",
    "user": "the user that logs in, if the gateway's address doesn't name it",
    "password": "likewise",
    "authority": "PEM file that signs gateways' certificates",
    "certificate": "PEM file for a login by certificate",
    "key": "PEM file with its key",
}
_SCHEMES = {"amqp", "amqps"}


def named(
    what: str, options: Mapping[str, str], known: Collection[str], prefix: str = ""
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the known options, under their names, and those that begin with a prefix, without it.
    `what` names their owner. Raises InvalidRequest for others."""
    spelled = {name.lower(): name for name in known}
    said: dict[str, str] = {}
    prefixed: list[tuple[str, str]] = []
    for name, value in options.items():
        lower = name.lower()
        if prefix and lower.startswith(prefix):
            prefixed.append((lower.removeprefix(prefix), value))
        elif lower in spelled:
            said[spelled[lower]] = value
        else:
            there_are = ", ".join([*known, *([f"{prefix}*"] if prefix else [])])
            raise InvalidRequest(f"{what} has no option '{name}'; it has {there_are}")
    return said, prefixed


def require(said: Mapping[str, str], known: Mapping[str, str], *names: str) -> None:
    """Raise InvalidRequest where one of these options is missing."""
    for name in names:
        if not said.get(name):
            raise InvalidRequest(f"the option '{name}' is missing: {known[name]}")


def address_of(gateway: str) -> tuple[str, str, str]:
    """Return address without login, user and password of the option `gateway`. Raises
    InvalidRequest."""
    whole = gateway if "://" in gateway else f"amqp://{gateway}"
    parts = urlsplit(whole)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in _SCHEMES or not host or parts.path.strip("/"):
        shown = f"{parts.scheme}://...@{host}" if parts.username else gateway
        raise InvalidRequest(f"the option 'gateway' is '{shown}'; it must be {GATEWAY['gateway']}")
    scheme = f"{parts.scheme}://" if "://" in gateway else ""
    shown_host = f"[{host}]" if ":" in host else host
    where = f"{scheme}{shown_host}" + (f":{port}" if port else "")
    return where, unquote(parts.username or ""), unquote(parts.password or "")


def file_of(said: Mapping[str, str], name: str) -> Path | None:
    """Return the file that an option names, if any."""
    return Path(said[name]) if said.get(name) else None


def whole_of(said: Mapping[str, str], name: str, least: int) -> int | None:
    """Return an option's number, if it is given. Raises InvalidRequest."""
    value = said.get(name)
    if value is None:
        return None
    if not value.isdecimal() or not least <= int(value) <= 1_000_000:
        text = f"a number from {least} to 1000000"
        raise InvalidRequest(f"the option '{name}' is '{value}'; it must be {text}")
    return int(value)


def flag_of(said: Mapping[str, str], name: str) -> bool:
    """Return an option's true or false, by default false. Raises InvalidRequest."""
    value = said.get(name, "false").lower()
    if value not in {"true", "false"}:
        raise InvalidRequest(f"the option '{name}' is '{value}'; it must be true or false")
    return value == "true"
