"""Options of the sink `topic`, checked: each wrong option raises one sentence."""

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

#: Every option, in Spark's spelling, and its meaning.
KNOWN = {
    "gateway": GATEWAY["gateway"],
    "topic": "the topic or queue of its rows, such as orders or queue://jobs",
    **{name: says for name, says in GATEWAY.items() if name != "gateway"},
    "atLeastOnce": "true: publish even where no duplicates are detected",
}
#: Spark's own options, which it passes to every sink of a stream.
OF_SPARK = frozenset({"checkpointlocation"})


@dataclass(frozen=True, slots=True)
class SinkChoices:
    """Values of the options."""

    address: str
    topic: str
    user: str = ""
    password: str = field(default="", repr=False)
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    at_least_once: bool = False


def sink_choices(options: Mapping[str, str]) -> SinkChoices:
    """Return the options of a query, by names in any case. Raises InvalidRequest."""
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
