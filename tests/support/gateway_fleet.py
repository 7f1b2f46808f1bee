"""Gateways of one lake: `main` and `orders`, each with a log of its own, each relaying links.

Topics that begin with `orders.` and queues that begin with `orders.` are in the log `orders`, all
others in `main`.
"""

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway_process import Gateway, Settings
from proton import symbol, ulong

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake

PLACEMENT = Placement(
    1, ("main", "orders"), (Rule("orders.#", ("orders",)), Rule("queue://orders.#", ("orders",)))
)


#: All topics and queues are in `orders`: a gateway of `main` relays all links.
ALL_ELSEWHERE = Placement(
    1, ("main", "orders"), (Rule("#", ("orders",)), Rule("queue://#", ("orders",)))
)

#: All are in the only log: a gateway without one relays all links, and no log lacks its owner.
ALL_IN_MAIN = Placement(1, ("main",))

#: All are divided over both logs: a gateway of `main` gathers all links of consumers. By
#: `RELAYED=partitions`, for a look: tests that want an order without groups, or transactions over
#: messages of several, fail.
ALL_DIVIDED = Placement(
    1,
    ("main", "orders"),
    (Rule("#", ("main", "orders"), 2), Rule("queue://#", ("main", "orders"), 2)),
)

#: Properties by which a gateway names the client of a link; only gateways are believed.
OF_ANOTHER = {
    symbol("distributary:log"): "orders",
    symbol("distributary:connection"): ulong(1),
    symbol("distributary:container"): "theirs",
    symbol("distributary:user"): "admin",
    symbol("distributary:peer"): "nowhere",
    symbol("distributary:sole"): False,
    symbol("distributary:desired"): "",
}


#: How events begin of what is in a log.
_OF_A_LOG = ("subscription.", "store.", "batch.", "commit.", "journal.", "backlog.", "messages.")


class RelayingGateway(Gateway):
    """A gateway that owns no topic, and behind it the one that owns all: what a gateway does, it
    does. `log` is the one that it owns: `none`, or `main`, in which nothing is placed."""

    def __init__(self, folder: Path, settings: Settings | None = None, log: str = "main") -> None:
        authority = (settings or {}).get("security", {}).get("tls_client_ca")
        if authority:
            settings = {**(settings or {}), "fleet": {"tls_ca": authority}}
        super().__init__(folder, settings)
        divided = os.environ.get("RELAYED") == "partitions"
        elsewhere = ALL_IN_MAIN if log == "none" else ALL_ELSEWHERE
        DiskLake(self.home).replace(None, ALL_DIVIDED if divided else elsewhere)
        self.options = ["--log", log]
        self.owner = Gateway(folder / "owner", settings)
        self.owner.home, self.owner.options = self.home, ["--log", elsewhere.logs[-1]]

    def start(self, *, before: Callable[[], None] | None = None) -> Self:
        """Start the owner first."""
        for gateway in (self, self.owner):  # certificates in tests are localhost's
            gateway.environment["DISTRIBUTARY_GATEWAY_ADVERTISE"] = f'"localhost:{gateway.port}"'
        if not self.owner.running:
            self.owner.start()
            self.owner.await_event("address.said", len(self.owner.events("listening")))
        return super().start(before=before)

    def events(self, name: str) -> list[dict[str, object]]:
        """The events of this name; events of a log are the owner's."""
        of_owner = name.startswith(_OF_A_LOG) and hasattr(self, "owner")
        return self.owner.events(name) if of_owner else super().events(name)

    def stop(self, *, code: int = 0) -> None:
        """Stop the owner last."""
        super().stop(code=code)
        self.owner.stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self.owner.__exit__(kind, error, trace)


def as_asked(folder: Path, settings: Settings | None = None) -> Gateway:
    """A gateway by itself; with `RELAYED=1` or `RELAYED=none` one that relays all to its owner."""
    relayed = os.environ.get("RELAYED")
    if not relayed:
        return Gateway(folder, settings)
    return RelayingGateway(folder, settings, "none" if relayed == "none" else "main")


class Fleet:
    """The two gateways, and a standby that may take `orders` over. `make` gives a gateway that
    doesn't run yet."""

    def __init__(
        self,
        folder: Path,
        make: Callable[..., Gateway],
        settings: Settings | None = None,
        placement: Placement = PLACEMENT,
    ) -> None:
        self.home = folder / "lake"
        self.lake = DiskLake(self.home)
        self.lake.replace(None, placement)
        self._make, self._settings = make, settings
        self.main, self.orders = self._of("main"), self._of("orders")

    def _of(self, log: str) -> Gateway:
        gateway = self._make(self._settings)
        gateway.home, gateway.options = self.home, ["--log", log]
        return gateway

    def standby(self) -> Gateway:
        """One more gateway for `orders`; it isn't started."""
        gateway = self._of("orders")
        gateway.options.append("--standby")
        return gateway

    def start(self) -> Self:
        """Start both, and wait until the lake knows where they are."""
        for gateway in (self.main, self.orders):
            gateway.start()
            gateway.await_event("address.said", len(gateway.events("listening")))
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for gateway in (self.main, self.orders):
            gateway.__exit__(kind, error, trace)


#: `hot...` and all queues are divided over three logs, of which `main` has none of `cold...`.
PARTITIONED = Placement(
    1,
    ("main", "orders", "prices"),
    (
        Rule("hot.#", ("main", "orders", "prices"), 3),
        Rule("cold.#", ("orders", "prices"), 2),
        Rule("queue://hot.#", ("main", "orders", "prices"), 3),
        Rule("queue://cold.#", ("orders", "prices"), 2),
    ),
)


#: Each queue is in one of three logs.
THREE_LOGS = Placement(
    1,
    ("main", "orders", "prices"),
    (Rule("queue://orders.#", ("orders",)), Rule("queue://prices.#", ("prices",))),
)


class Trio:
    """Three gateways, each with a log; topics are partitioned, unless they are placed otherwise.
    `make` gives a gateway that doesn't run yet."""

    def __init__(
        self,
        folder: Path,
        make: Callable[..., Gateway],
        settings: Settings | None = None,
        placement: Placement = PARTITIONED,
    ) -> None:
        self.home = folder / "lake"
        self.lake = DiskLake(self.home)
        self.lake.replace(None, placement)
        self.all: dict[str, Gateway] = {}
        for log in placement.logs:
            gateway = self.all[log] = make(settings)
            gateway.home, gateway.options = self.home, ["--log", log]

    @property
    def main(self) -> Gateway:
        """It has a part of what is hot, and none of what is cold."""
        return self.all["main"]

    def __enter__(self) -> Self:
        for gateway in self.all.values():
            gateway.start()
            gateway.await_event("address.said", len(gateway.events("listening")))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for gateway in self.all.values():
            gateway.__exit__(kind, error, trace)
