"""Options of the source `subscription`, checked: each wrong option raises one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from distributary.jobs.client.query_options import (
    GATEWAY,
    address_of,
    file_of,
    flag_of,
    named,
    require,
    whole_of,
)
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.subscription import SubscriptionKey

#: Every option, in Spark's spelling, and its meaning.
KNOWN = {
    "gateway": GATEWAY["gateway"],
    "home": "the home of a lake, instead of the gateway: its gateways are found there",
    "subscription": "its id, such as global/orders, container/billing/orders or queue/orders",
    **{name: says for name, says in GATEWAY.items() if name != "gateway"},
    "consumer": "what its deliveries are called in acks, in front of the subscription's name",
    "log": "where topic_log is, if the executors find it elsewhere than the gateway does",
    "lakeLog": "the log of a lake that has the subscription, where several have one of its id",
    "maxMessagesPerTrigger": "messages of one batch",
    "lingerSeconds": "seconds that a batch stays with the query when its driver is gone",
    "raw": "true: the bytes of the messages instead of their columns",
    "typed": "true: the body as columns of its topic's schema, too",
}
#: Prefix of options for the store of `log`, such as storage.aws_region.
STORAGE = "storage."


@dataclass(frozen=True, slots=True)
class Choices:
    """Values of the options; None and empty where the defaults of `conf/jobs.toml` hold."""

    address: str
    subscription: str
    user: str = ""
    password: str = field(default="", repr=False)
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    consumer: str = "spark"
    log: str = ""
    home: str = ""
    lake_log: str = ""
    storage: tuple[tuple[str, str], ...] = ()
    messages_max: int | None = None
    linger_seconds: int | None = None
    raw: bool = False
    typed: bool = False

    @property
    def container(self) -> str | None:
        """Container of the subscription, if it isn't global."""
        return SubscriptionKey.parse(self.subscription).container


def choices(options: Mapping[str, str]) -> Choices:
    """Return the options of a query, by names in any case. Raises InvalidRequest."""
    said, storage = named("the source 'subscription'", options, KNOWN, STORAGE)
    require(said, KNOWN, *(() if said.get("home") else ("gateway",)), "subscription")
    if said.get("home") and said.get("gateway"):
        raise InvalidRequest("the options 'gateway' and 'home' are both said: one of them is asked")
    named_one = said.get("gateway", "")
    address, user, password = address_of(named_one) if named_one else ("", "", "")
    consumer = said.get("consumer", "spark")
    if not consumer or "/" in consumer:
        raise InvalidRequest(f"the option 'consumer' is '{consumer}': a name without '/'")
    SubscriptionKey.parse(said["subscription"])
    raw, typed = flag_of(said, "raw"), flag_of(said, "typed")
    if raw and typed:
        raise InvalidRequest("the options 'raw' and 'typed' are both true: bytes, or columns")
    return Choices(
        address,
        said["subscription"],
        said.get("user", user),
        said.get("password", password),
        authority=file_of(said, "authority"),
        certificate=file_of(said, "certificate"),
        key=file_of(said, "key"),
        consumer=consumer,
        log=_absolute(said.get("log", "")),
        home=_absolute(said.get("home", "")),
        lake_log=said.get("lakeLog", ""),
        storage=tuple(sorted(storage)),
        messages_max=whole_of(said, "maxMessagesPerTrigger", 1),
        linger_seconds=whole_of(said, "lingerSeconds", 0),
        raw=raw,
        typed=typed,
    )


def _absolute(log: str) -> str:
    """Return the address in a form that doesn't depend on the working folder."""
    return log if not log or "://" in log else str(Path(log).absolute())
