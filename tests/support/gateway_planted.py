"""A gateway with faults planted in its own code: `python gateway_planted.py ARMED serve ...`.

Whatever the file ARMED names (MODULE:FUNCTION or MODULE:CLASS.METHOD) raises the next time it is
called, or with `/N` behind it the Nth time: once, and if the file has a second word only for the
peer whose container is called so.
"""

import functools
import gc
import importlib
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway_process import Gateway, until

#: Where faults can be planted. All of it is called in work for one peer, but for the last ones.
PLACES = (
    "distributary.ingest.security.access:Access.handshake",
    "distributary.ingest.security.handshake:Handshake.feed",
    "distributary.ingest.security.handshake:Handshake.verified",
    "distributary.ingest.net.connection:Connection.__init__",
    "distributary.ingest.net.connection:Connection._free",
    "distributary.ingest.net.connection:Connection._feed",
    "distributary.ingest.net.connection:Connection._write",
    "distributary.ingest.net.connection:Connection._tick",
    "distributary.ingest.gateway.link_service:LinkService.failed",
    "distributary.ingest.gateway.message_loop:MessageLoop.writable",
    "distributary.ingest.gateway.link_service:LinkService._open_producer",
    "distributary.ingest.subscriptions.subscription_service:SubscriptionService._browse",
    "distributary.ingest.subscriptions.subscription_service:SubscriptionService.leave",
    "distributary.ingest.subscriptions.subscription_service:_detach",
    "distributary.ingest.net.link:Link.open",
    "distributary.ingest.transactions.coordinator:Coordinator._committed",
    "distributary.ingest.transactions.post_answers:will_be",
    "distributary.ingest.transactions.coordinator:Coordinator._too_long",
    "distributary.ingest.management.leases:Leases._lingered",
    "distributary.ingest.management.node:Node._message",
    "distributary.ingest.management.requests:Requests._answer",
    "distributary.ingest.management.lease_requests:LeaseRequests._answer",
    "distributary.ingest.subscriptions.temporary_nodes:TemporaryNodes.left",
    "distributary.pipeline.selector.matching:_Together.evaluate",
    "distributary.ingest.commit.group_log:Log._add",
    "distributary.ingest.commit.group_log:Log.slow",
    "distributary.ingest.commit.group_log:Log._begin",
    "distributary.pipeline.dispatch.dispatcher:Dispatcher.settle",
    "distributary.ingest.commit.committer:Committer.add",
)
#: The types of which a test counts the objects.
COUNTED = (
    "distributary.ingest.",
    "proton.",
    "proton_",
    "distributary.pipeline.transactions.transaction.",
    "distributary.pipeline.subscriptions.temporary_destination.",
)
#: From what is given to a function to the connection that it works for.
STEPS = ("connection", "link", "receipt", "consumer", "asked_by")


class Planted(Gateway):
    """A gateway of which a test arms one fault after the other."""

    BUGS = ("gateway.bug",)

    @property
    def armed(self) -> Path:
        return self.config.with_name("armed")

    @property
    def COMMAND(self) -> tuple[str, ...]:  # type: ignore[override]  # noqa: N802
        return (sys.executable, __file__, str(self.armed))

    def arm(self, place: str, container: str = "") -> None:
        """The next call there raises; of this peer, if it is named."""
        assert place.partition("/")[0] in PLACES
        written = self.armed.with_suffix(".new")
        written.write_text(f"{place} {container}")
        written.rename(self.armed)

    def objects(self) -> dict[str, int]:
        """How many objects of each of the service's and the engine's types it has."""
        assert self.process is not None
        counts = self.armed.with_suffix(".counts")
        counts.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR2)
        until(counts.exists, "the counts")
        return {str(name): int(count) for name, count in json.loads(counts.read_text()).items()}

    def went_off(self) -> bool:
        return not self.armed.exists()


def container_of(value: object, steps: int = 3) -> str:
    """The container for which something is done with this value; empty if that can't be seen."""
    if isinstance(value, tuple) and value:
        value = value[0]  # all links of one connection
    found = getattr(value, "container", None)
    if isinstance(found, str):
        return found
    nexts = (getattr(value, step, None) for step in STEPS if steps)
    return next((name for one in nexts if one and (name := container_of(one, steps - 1))), "")


def planted(function: Callable[..., Any], place: str, armed: Path) -> Callable[..., Any]:
    """The function, which raises when it is armed."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            where, _, whose = armed.read_text().partition(" ")
        except OSError:
            where = whose = ""
        where, _, after = where.partition("/")
        if where == place and (not whose or whose in map(container_of, args)):
            if after and int(after) > 1:
                armed.write_text(f"{where}/{int(after) - 1} {whose}")
                return function(*args, **kwargs)
            armed.unlink()
            raise RuntimeError(f"planted in {place}")
        return function(*args, **kwargs)

    return call


def count_objects(file: Path) -> None:
    """Write down how many objects of each type there are."""
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
    # Upkeep has its own hours: what it holds is no link's.
    ours = (
        name for name in names if not name.startswith("distributary.ingest.commit.upkeep_clock.")
    )
    counts = Counter(name for name in ours if name.startswith(COUNTED))
    written = file.with_suffix(".new")
    written.write_text(json.dumps(counts))
    written.rename(file)


def main() -> None:
    armed = Path(sys.argv.pop(1))
    signal.signal(signal.SIGUSR2, lambda *_: count_objects(armed.with_suffix(".counts")))
    for place in PLACES:
        module, _, path = place.partition(":")
        owner: Any = importlib.import_module(module)
        *outer, name = path.split(".")
        for step in outer:
            owner = getattr(owner, step)
        setattr(owner, name, planted(getattr(owner, name), place, armed))
    importlib.import_module("distributary.ingest.cli.main").main()


if __name__ == "__main__":
    main()
