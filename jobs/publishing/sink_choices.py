"""What a query says to the sink `topic`, checked: each wrong option is one sentence."""

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
)

#: Every option, in the words of Spark, and what it says.
KNOWN = {
    "gateway": GATEWAY["gateway"],
    "topic": "where its rows go, such as orders or queue://jobs",
    **{name: says for name, says in GATEWAY.items() if name != "gateway"},
    "atLeastOnce": "true: publish also where nobody looks for duplicates",
}
#: What Spark says to every sink of a stream for itself.
OF_SPARK = frozenset({"checkpointlocation"})


@dataclass(frozen=True, slots=True)
class SinkChoices:
    """What the options say."""

    address: str
    topic: str
    user: str = ""
    password: str = field(default="", repr=False)
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    at_least_once: bool = False


def sink_choices(options: Mapping[str, str]) -> SinkChoices:
    """The options of a query, whatever the case of their names. Raises InvalidRequest."""
    ours = {name: value for name, value in options.items() if name.lower() not in OF_SPARK}
    said, _ = named("the sink 'topic'", ours, KNOWN)
    require(said, KNOWN, "gateway", "topic")
    address, user, password = address_of(said["gateway"])
    return SinkChoices(
        address if "://" in address else f"amqp://{address}",
        said["topic"],
        said.get("user", user),
        said.get("password", password),
        authority=file_of(said, "authority"),
        certificate=file_of(said, "certificate"),
        key=file_of(said, "key"),
        at_least_once=flag_of(said, "atLeastOnce"),
    )
