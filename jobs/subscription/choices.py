"""What a query says to the source `subscription`, checked: each wrong option is one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.subscription import SubscriptionKey

#: Every option, in the words of Spark, and what it says.
KNOWN = {
    "gateway": "amqp://user:password@host:port, or host:port",
    "subscription": "its id, such as global/orders, container/billing/orders or queue/orders",
    "user": "who logs in, if the gateway's address doesn't say it",
    "password": "likewise",
    "authority": "PEM file that signs gateways' certificates",
    "certificate": "PEM file for a login by certificate",
    "key": "PEM file with its key",
    "consumer": "what its deliveries are called in acks, in front of the subscription's name",
    "log": "where topic_log is, if the executors find it elsewhere than the gateway does",
    "maxMessagesPerTrigger": "messages of one batch",
    "lingerSeconds": "seconds that a batch stays with the query when its driver is gone",
    "raw": "true: the bytes of the messages instead of their columns",
}
#: Options that begin so are for the store of `log`, such as storage.aws_region.
STORAGE = "storage."
_SCHEMES = {"amqp", "amqps"}


@dataclass(frozen=True, slots=True)
class Choices:
    """What the options say; None and empty where the defaults of `conf/jobs.toml` hold."""

    address: str
    subscription: str
    user: str = ""
    password: str = field(default="", repr=False)
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    consumer: str = "spark"
    log: str = ""
    storage: tuple[tuple[str, str], ...] = ()
    messages_max: int | None = None
    linger_seconds: int | None = None
    raw: bool = False

    @property
    def container(self) -> str | None:
        """The container that the subscription belongs to, if it isn't global."""
        return SubscriptionKey.parse(self.subscription).container


def choices(options: Mapping[str, str]) -> Choices:
    """The options of a query, whatever the case of their names. Raises InvalidRequest."""
    known = {name.lower(): name for name in KNOWN}
    said: dict[str, str] = {}
    storage: list[tuple[str, str]] = []
    for name, value in options.items():
        lower = name.lower()
        if lower.startswith(STORAGE):
            storage.append((lower.removeprefix(STORAGE), value))
        elif lower in known:
            said[known[lower]] = value
        else:
            there_are = ", ".join([*KNOWN, f"{STORAGE}*"])
            raise InvalidRequest(
                f"the source 'subscription' has no option '{name}'; it has {there_are}"
            )
    for name in ("gateway", "subscription"):
        if not said.get(name):
            raise InvalidRequest(f"the option '{name}' is missing: {KNOWN[name]}")
    address, user, password = _address(said["gateway"])
    consumer = said.get("consumer", "spark")
    if not consumer or "/" in consumer:
        raise InvalidRequest(f"the option 'consumer' is '{consumer}': a name without '/'")
    SubscriptionKey.parse(said["subscription"])
    return Choices(
        address,
        said["subscription"],
        said.get("user", user),
        said.get("password", password),
        authority=_file(said, "authority"),
        certificate=_file(said, "certificate"),
        key=_file(said, "key"),
        consumer=consumer,
        log=_absolute(said.get("log", "")),
        storage=tuple(sorted(storage)),
        messages_max=_whole(said, "maxMessagesPerTrigger", 1),
        linger_seconds=_whole(said, "lingerSeconds", 0),
        raw=_flag(said, "raw"),
    )


def _address(gateway: str) -> tuple[str, str, str]:
    """The address without its login, the user, the password."""
    whole = gateway if "://" in gateway else f"amqp://{gateway}"
    parts = urlsplit(whole)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme not in _SCHEMES or not host or parts.path.strip("/"):
        shown = f"{parts.scheme}://...@{host}" if parts.username else gateway
        raise InvalidRequest(f"the option 'gateway' is '{shown}'; it must be {KNOWN['gateway']}")
    scheme = f"{parts.scheme}://" if "://" in gateway else ""
    shown_host = f"[{host}]" if ":" in host else host
    where = f"{scheme}{shown_host}" + (f":{port}" if port else "")
    return where, unquote(parts.username or ""), unquote(parts.password or "")


def _absolute(log: str) -> str:
    """The address as every process finds it, whatever its working folder."""
    return log if not log or "://" in log else str(Path(log).absolute())


def _file(said: Mapping[str, str], name: str) -> Path | None:
    return Path(said[name]) if said.get(name) else None


def _whole(said: Mapping[str, str], name: str, least: int) -> int | None:
    value = said.get(name)
    if value is None:
        return None
    if not value.isdecimal() or not least <= int(value) <= 1_000_000:
        text = f"a number from {least} to 1000000"
        raise InvalidRequest(f"the option '{name}' is '{value}'; it must be {text}")
    return int(value)


def _flag(said: Mapping[str, str], name: str) -> bool:
    value = said.get(name, "false").lower()
    if value not in {"true", "false"}:
        raise InvalidRequest(f"the option '{name}' is '{value}'; it must be true or false")
    return value == "true"
