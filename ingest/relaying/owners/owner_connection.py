"""The connection to the owner of one log, for all links that are relayed there.

Rule 1: it is made when a link needs it, and made again while any link does.
Rule 2: while the owner is away, or doesn't answer, links wait for `fleet.owner_wait_ms`. The lake
        says the owner's address, which may be old: a gateway that isn't the owner refuses links,
        and a dial is given up as soon as the lake says another address.
Rule 3: links are attached again in the order in which they came.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Protocol

import structlog

from distributary.client.connection.client_errors import ClientError, ConnectionFailed, Refused
from distributary.client.connection.client_settings import ConnectionSettings
from distributary.client.connection.dialing import Dialing
from distributary.client.connection.server_url import Files, Identity, server_of
from distributary.client.connection.wire import ClientLink, Wire
from distributary.ingest.net.relayed_link import OwnerSeen
from distributary.ingest.relaying.owners.lake_looks import FoundOwner, LakeLooks
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import WhileWanted
from distributary.ingest.security.gateway_login import GATEWAY
from distributary.ingest.security.scram import MECHANISM
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log_names import private_number
from distributary.pipeline.model.amqp_error import NOT_FOUND

_events = structlog.get_logger("gateway")

#: Sessions of one connection, a few less than the engine has channels.
SESSIONS_MAX = 32_000
#: Seconds of the connection's opening, login included.
_OPEN_SECONDS = 5.0
#: Seconds between two looks when the owner was lost just now, and for how long: where a standby
#: waits the log has a new owner soon.
_SOON_SECONDS, _SOON_FOR_SECONDS = 0.02, 2.0
#: Seconds that a connection must live for its loss to count as a loss of the owner: a gateway that
#: isn't the owner any more lets gateways in, and refuses their links.
_GOOD_SECONDS = 1.0


class Waiting(Protocol):
    """A link or session that waits for an owner, or for its answer."""

    def give_up(self, reason: str) -> None:
        """Stop waiting: it took too long. The owner may be there all the same."""


class WaitingLink(ClientLink, Waiting, Protocol):
    """A relayed link, as the connection has it."""


class OwnerConnection:
    """The connection to the owner of `log`. `finish_pass` hands on frames that came from it. All
    methods run on the loop's thread."""

    def __init__(
        self, host: Host, log: str, looks: LakeLooks, finish_pass: Callable[[], None]
    ) -> None:
        self._loop, self.log, self._looks = host.loop, log, looks
        self._finish_pass = finish_pass
        fleet, amqp = host.settings.fleet, host.settings.amqp
        self.wait_seconds = fleet.owner_wait_ms / 1_000
        self._look_seconds = fleet.look_ms / 1_000
        self._authority = Path(fleet.tls_ca) if fleet.tls_ca else None
        self._container = host.settings.gateway.container_id
        self._settings = ConnectionSettings(
            open_seconds=_OPEN_SECONDS,
            close_seconds=_OPEN_SECONDS,
            # A peer that is silent for a lease is no owner any more; it waits longer for us.
            idle_timeout_ms=host.settings.owner.lease_ms,
            frame_bytes_max=amqp.frame_bytes_max,
            message_bytes_max=amqp.message_bytes_max,
            scram_iterations_max=1_000_000,
        )
        self._links: dict[WaitingLink, None] = {}
        #: Waiting links and sessions, since when (`loop.time`): the longest wait first.
        self._waiting: dict[Waiting, float] = {}
        self.wire: Wire | None = None
        #: Sessions on this connection; clients' sessions that may need one.
        self.sessions = self.users = self._losses = 0
        self._lost_at = 0.0
        self._why = "it isn't connected yet"
        #: Since when the lake knows no owner, for a log that only one gateway ever has.
        self._gone_since: float | None = None
        self._gone_seconds = fleet.member_ms / 1_000
        self._doubted = ""  #: the last connection's peer, if it wasn't the owner
        self._closing = False
        self._work = WhileWanted(self._serve, self._wanted, host.loop, "relaying")

    # Links.

    def join(self, link: WaitingLink) -> None:
        """Attach the link at the owner, now or when there is one; on each connection again, until
        `leave`."""
        self._links[link] = None
        self.awaits(link)
        if self.wire is not None:
            self.wire.attach(link)
        else:
            self._work.begin()

    def leave(self, link: WaitingLink) -> None:
        """Forget a link."""
        self._links.pop(link, None)
        self.answered(link)

    def awaits(self, one: Waiting) -> None:
        """Have it wait for the owner or its answer, from now or from its first call on; until
        `answered`, or until it is given up."""
        self._waiting.setdefault(one, self._loop.time())

    def answered(self, one: Waiting) -> None:
        """End its wait."""
        self._waiting.pop(one, None)

    def refused(self, link: WaitingLink) -> None:
        """The connected peer isn't the log's owner: have the link wait, and ask the lake again."""
        self.awaits(link)
        if self.wire is not None:
            self._doubted = str(self.wire)
            self.wire.abort(ConnectionFailed(f"{self._doubted} isn't the owner of {self.log}"))

    def seen(self) -> OwnerSeen:
        """Return the connection's state for reports."""
        return OwnerSeen(self.log, self.wire is not None, len(self._links), self._losses)

    def close(self) -> None:
        """Close the connection: the gateway ends."""
        self._closing = True
        self._work.close()
        if self.wire is not None:
            self.wire.abort(ConnectionFailed("the gateway ends"))

    def passed(self) -> None:
        """Hand on frames after one read: its links have taken theirs."""
        self._finish_pass()

    # The connection.

    def _wanted(self) -> bool:
        return bool(self._links) and not self._closing

    async def _serve(self) -> None:
        """Keep a connection while links want one."""
        told = False
        while self._wanted():
            try:
                await self._live(await self._dial())
                told = False
            except (ClientError, InvalidRequest, StoreError) as error:
                self._why = str(error)
                if not told:  # once, however long the owner is away
                    _events.warning("relay.waits", log=self.log, reason=self._why)
                told = True
                self._give_up()
                self._refuse_gone()
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        """Return the seconds until the lake is asked again."""
        if monotonic() - self._lost_at < _SOON_FOR_SECONDS:
            return min(_SOON_SECONDS, self._look_seconds)
        return self._look_seconds

    async def _dial(self) -> Wire:
        """Connect to the owner. Raises ClientError, InvalidRequest, StoreError."""
        found = await self._looks.owner(self.log)
        if found is not None:
            self._gone_since = None
        elif self._gone_since is None and private_number(self.log) is not None:
            self._gone_since = self._loop.time()
        if found is None:
            raise ConnectionFailed("its owner hasn't said where it listens")
        dialing = asyncio.ensure_future(self._dial_at(found))
        moved = asyncio.ensure_future(self._moved(found))
        try:
            await asyncio.wait((dialing, moved), return_when=asyncio.FIRST_COMPLETED)
            if dialing.done():
                return dialing.result()
            moved.result()
            raise ConnectionFailed(f"the owner is no longer at {found.address.url}")
        finally:
            dialing.cancel()
            moved.cancel()

    async def _moved(self, found: FoundOwner) -> None:
        """Wait until the lake says that the owner is elsewhere."""
        while True:
            await asyncio.sleep(self._look_seconds)
            with suppress(InvalidRequest, StoreError):
                other = await self._looks.owner(self.log)
                # The time in the address changes each time a gateway without a log renews it.
                if other is None or _dialled(other) != _dialled(found):
                    return

    async def _dial_at(self, found: FoundOwner) -> Wire:
        """Connect to this address. Raises ClientError, InvalidRequest."""
        identity = Identity(GATEWAY, found.secret, mechanism=MECHANISM)
        url = found.address.url
        files = Files(self._authority) if url.startswith("amqps:") else Files()
        server = replace(server_of(url, "", "", files), identity=identity)
        return await Dialing((server,), self._container, self._settings).dial()

    async def _live(self, wire: Wire) -> None:
        """Serve links until the connection is lost. Raises ConnectionFailed if it is lost soon and
        the last peer wasn't the owner: the owner didn't come back."""
        self.wire, self.sessions, began = wire, 0, monotonic()
        wire.watch(self)
        for link in tuple(self._links):
            wire.attach(link)
        try:
            if str(wire) == self._doubted:
                await asyncio.wait((wire.lost,), timeout=_GOOD_SECONDS)
                if wire.lost.done():
                    raise ConnectionFailed(str(wire.lost.result()))
            self._doubted = ""
            _events.info("relay.connected", log=self.log, url=str(wire))
            reason = await self._lost(wire)
        finally:
            self.wire = None
        self._losses += 1
        _events.warning("relay.lost", log=self.log, url=str(wire), reason=str(reason))
        if monotonic() - began >= _GOOD_SECONDS:
            self._lost_at = monotonic()
        self._why = str(reason)
        self._give_up()

    async def _lost(self, wire: Wire) -> ClientError:
        """Wait for the connection's loss and return its reason. Each awaited answer has its time,
        which begins with the connection at the earliest."""
        began = now = self._loop.time()
        while not wire.lost.done():
            due = max(began, next(iter(self._waiting.values()), now)) + self.wait_seconds
            await asyncio.wait((wire.lost,), timeout=due - now)
            now = self._loop.time()
            if now >= due:
                self._give_up()
        return wire.lost.result()

    @property
    def late(self) -> str:
        """Return the error text for links that have waited for too long."""
        seconds = f"{self.wait_seconds:g} s (fleet.owner_wait_ms)"
        if self.wire is not None:
            return f"the owner of the log '{self.log}' didn't answer for {seconds}"
        return f"the owner of the log '{self.log}' was away for {seconds}: {self._why}"

    def _give_up(self) -> None:
        """Give up links and sessions that have waited for too long."""
        overdue = self._loop.time() - self.wait_seconds
        while self._waiting and next(iter(self._waiting.values())) <= overdue:
            one = next(iter(self._waiting))
            del self._waiting[one]
            one.give_up(self.late)
        self._finish_pass()

    def _refuse_gone(self) -> None:
        """Refuse links to a gateway without a log that is gone for good, with its clients'
        temporary destinations: it enters itself in the lake when it begins."""
        if self._gone_since is None or self._loop.time() < self._gone_since + self._gone_seconds:
            return
        text = f"there is no gateway of the log '{self.log}' any more"
        for link in tuple(self._links):
            link.fail(Refused(text, NOT_FOUND, text))
        self._finish_pass()


def _dialled(found: FoundOwner) -> tuple[str, str]:
    """Return address and secret of a connection."""
    return found.address.url, found.secret
