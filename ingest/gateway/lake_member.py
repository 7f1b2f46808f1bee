"""A gateway's part in a lake: the log that it serves, and how other gateways find it.

It is loaded where the home is a lake, or where `--log` is given.
"""

import asyncio
import os
import secrets
import socket
import time
from typing import Final

import msgspec
import structlog

from distributary.ingest.commit.table_location import is_address, lake_at
from distributary.ingest.fleet.membership import Membership
from distributary.ingest.gateway.ownership.fleet_part import FleetPart, NoFleet
from distributary.ingest.relaying.relays import LakeRelaying
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.settings import Settings
from distributary.ingest.runtime.workers import Failure, Worker
from distributary.ingest.security.access import Access
from distributary.ingest.security.gateway_login import gateway_login
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.fleet.heirs import NUMBERS
from distributary.pipeline.fleet.members import Member
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.log_names import ANY, LOGS, MAIN, is_log_name, private_number
from distributary.pipeline.subscriptions.policy_table import dead_letter_queue
from distributary.pipeline.tables.lake.lake import Lake, OwnerAddress

_events = structlog.get_logger("gateway")

#: Leases between two checks that a gateway's address is still in the lake: a read of a store each.
LEASES: Final = 3
#: Hosts to listen on that name no machine.
_ANY_HOST: Final = frozenset({"", "0.0.0.0", "::", "*"})  # noqa: S104 (it is what is refused)


class LakeMember(msgspec.Struct, frozen=True):
    """The log of a lake that a gateway serves. Methods that block say so."""

    lake: Lake
    log: str

    @property
    def home(self) -> str:
        """The address of the log's home."""
        return self.lake.log_home(self.log)

    @property
    def is_private(self) -> bool:
        """Whether the gateway owns no log of the lake."""
        return private_number(self.log) is not None

    def notice(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> "AddressNotice":
        """Announce in the lake where this gateway listens, from now on."""
        return AddressNotice(self, settings, loop)

    def relaying(self, host: Host, access: Access) -> LakeRelaying:
        """Return the relays of links to the owners of other logs. Other gateways may log in here
        from now on. Blocks. Raises StoreError, InvalidRequest."""
        settings = host.settings
        lease_ms = settings.owner.lease_ms
        access.admit_gateways(gateway_login(self.log, self.lake.secret(), lease_ms))
        return LakeRelaying(host, self.lake, self.log, self.placement())

    def placement(self) -> Placement:
        """Return the placement in force. It changes only while no log has an owner, so an owner
        reads it once. Blocks. Raises StoreError, InvalidRequest when our log isn't there."""
        placement = self.lake.placement()
        if self.log not in placement.logs and not self.is_private:
            known = ", ".join(placement.logs)
            raise InvalidRequest(
                f"{self.lake.address} has no log {self.log}: there are {known}. Make it by "
                f"`distributary log create {self.log} --home {self.lake.address}`"
            )
        return placement


def member_of(root: str, log: str | None, settings: Settings) -> LakeMember | None:
    """Return the part of a gateway that serves a log (None: `main`) of the home at `root`; None
    where the home is no lake. Blocks. Raises InvalidRequest for a log that isn't there and for
    settings that no gateway of a lake can have, StoreError."""
    lake = lake_at(root, settings)
    if lake is None:
        if log is None or log == MAIN:
            return None
        if private_number(log) is not None:
            raise InvalidRequest(
                f"{root} has one log alone, {MAIN}: without it there is nothing to serve. Leave "
                "--log out"
            )
        raise InvalidRequest(
            f"{root} has one log alone, {MAIN}, and no log {log}. Make it by "
            f"`distributary log create {log} --home {root}`"
        )
    if settings.tables.url:
        raise InvalidRequest(
            f"tables.url is {settings.tables.url}, and {root} has several logs: each keeps its "
            "tables in its own home. Leave it out"
        )
    _ = advertised(settings)
    member = LakeMember(lake, log or MAIN)
    placement = member.placement()
    if not member.is_private:  # which has no message that outlasts it
        _check_policies(member.log, placement, settings)
    return member


def fleet_of(root: str, log: str | None, host: Host) -> FleetPart:
    """Return the part in the lake's fleet of a gateway that will serve this log, or waits for it;
    NoFleet where the home is no lake. Blocks. Raises as `member_of`."""
    lake = lake_at(root, host.settings)
    if lake is None:
        return NoFleet()
    settings, private = host.settings.fleet, private_number(log or MAIN)
    logs = lake.placement().logs
    waits = logs if log == ANY else (log or MAIN,)
    member = Member(
        number=private or secrets.randbelow(NUMBERS - 1) + 1,
        machine=settings.machine or socket.gethostname(),
        url=advertised(host.settings),
        pid=os.getpid(),
        waits=() if private else waits,
        spreads=settings.spread and log == ANY,
        weight=settings.weight,
        period_ms=settings.member_ms,
    )
    return Membership(host, lake, logs, member)


def homes_of(root: str, settings: Settings) -> dict[str, str]:
    """Return the address of each log's home; where the home is no lake, its own. Blocks. Raises as
    `member_of`."""
    lake = lake_at(root, settings)
    if lake is None:
        return {MAIN: root}
    return {log: lake.log_home(log) for log in lake.placement().logs}


def _check_policies(log: str, placement: Placement, settings: Settings) -> None:
    """Refuse default policies by which messages would go to queues or topics of another log: a copy
    is in one group with its message, so in its log. Raises InvalidRequest."""
    topic_policy = settings.topic_policy
    dead = (
        ("subscription.dead_letter_address", settings.policy.dead_letter_address),
        ("topic.dead_letter_address", topic_policy.dead_letter_address),
    )
    found = [(key, queue) for key, said in dead if (queue := dead_letter_queue(said)) is not None]
    found += [("topic.routes", route.to) for route in topic_policy.routes]
    for key, destination in found:
        where = placement.logs_of(destination.topic)
        if log not in where:
            elsewhere = f"{destination.topic}, which is in the log {', '.join(where)}"
            raise InvalidRequest(
                f"{key} is {elsewhere}, and copies stay in the log of their messages, here {log}. "
                f"Leave it out, or name what is in {log}"
            )


def settings_of(log: str, given: Settings) -> Settings:
    """Return the settings of a log's gateway: the log's name is added to the container id."""
    if log == MAIN:
        return given
    name = f"{given.gateway.container_id}/{log}"
    gateway = msgspec.structs.replace(given.gateway, container_id=name)
    return msgspec.structs.replace(given, gateway=gateway)


def check_is_whole(home: str, settings: Settings) -> None:
    """Refuse the home of a log of a lake: served by itself it would accept messages that belong in
    other logs. Blocks. Raises InvalidRequest, StoreError."""
    part = part_of(home, settings)
    if part is not None:
        above, log = part
        raise InvalidRequest(
            f"{home} is the log {log} of the lake {above}: serve it by --home {above} --log {log}"
        )


def part_of(home: str, settings: Settings) -> tuple[str, str] | None:
    """Return the lake of which a home is a log, and that log; None for another home. Blocks.
    Raises StoreError."""
    whole = home.rstrip("/") if is_address(home) else os.path.realpath(home)
    above, mark, log = whole.rpartition(f"/{LOGS}/")
    if not mark or not is_log_name(log) or (is_address(home) and not is_address(above)):
        return None
    lake = lake_at(above, settings)
    return (above, log) if lake is not None and log in lake.placement().logs else None


def advertised(settings: Settings) -> str:
    """Return the URL by which other gateways of the lake reach this one. Raises InvalidRequest
    where the settings name no machine."""
    gateway = settings.gateway
    host, port = gateway.advertised
    if host in _ANY_HOST:
        raise InvalidRequest(
            f"gateway.listen is {gateway.listen}, which says no machine: set gateway.advertise to "
            "the HOST:PORT by which the lake's other gateways reach this one"
        )
    scheme = "amqps" if settings.security.tls_certificate else "amqp"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


class AddressNotice:
    """Writes to the lake where this gateway listens, and tries again until that is written. Then it
    checks the address periodically: a former owner that wakes up may overwrite it with its own, and
    other gateways would go on asking that one. On the loop's thread."""

    def __init__(
        self, member: LakeMember, settings: Settings, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._member, self._loop = member, loop
        self._address = OwnerAddress(
            advertised(settings), settings.gateway.container_id, time.time_ns() // 1_000
        )
        self._again_seconds = settings.fleet.address_retry_ms / 1_000
        self._look_seconds = LEASES * settings.owner.lease_ms / 1_000
        self._worker: Worker[bool] = Worker("address", loop)
        self._timer: asyncio.TimerHandle | None = None
        self._say()

    def close(self) -> None:
        """Stop writing the address; a write that has begun may still be done."""
        if self._timer is not None:
            self._timer.cancel()
        self._worker.leave()

    def _say(self) -> None:
        self._worker.submit(self._stands, self._said)

    def _stands(self) -> bool:
        """Write the address if the lake has another one or none; return whether it was written. On
        the worker's thread."""
        lake, log = self._member.lake, self._member.log
        if lake.address_of(log) == self._address:
            return False
        lake.say_address(log, self._address)
        return True

    def _said(self, result: Failure | bool) -> None:
        if not isinstance(result, Failure):
            if result:
                _events.info("address.said", log=self._member.log, url=self._address.url)
            self._timer = self._loop.call_later(self._look_seconds, self._say)
            return
        if not isinstance(result.error, StoreError):
            self._loop.call_exception_handler(
                {"message": "saying the address", "exception": result.error}
            )
            return
        _events.warning("address.unsaid", log=self._member.log, reason=str(result.error))
        self._timer = self._loop.call_later(self._again_seconds, self._say)
