"""The life of a gateway: own the home or wait for it, replay, listen, serve, stop."""

import asyncio
import os
import signal
import ssl
import sys

import msgspec
import structlog

from distributary.ingest.gateway.homes import ServedLog
from distributary.ingest.gateway.message_loop import MessageLoop
from distributary.ingest.gateway.ownership.any_home import AnyHome, HomeOwner, OwnedHome
from distributary.ingest.gateway.ownership.fleet_part import FleetPart
from distributary.ingest.gateway.ownership.heartbeat import Heartbeat
from distributary.ingest.gateway.ownership.leaving import leave
from distributary.ingest.gateway.ownership.standing_by import stand_by
from distributary.ingest.gateway.service_notice import ServiceNotice
from distributary.ingest.gateway.sockets import FewAtOnce
from distributary.ingest.monitoring.gateway_metrics import GatewayMetrics, MetricSources
from distributary.ingest.monitoring.health import ServingSite, WaitingSite
from distributary.ingest.monitoring.http_server import HttpServer
from distributary.ingest.net.connection import Connection
from distributary.ingest.net.engine import Engine
from distributary.ingest.net.listener import Listener
from distributary.ingest.net.relayed_link import OneLog
from distributary.ingest.runtime.collecting import Collecting
from distributary.ingest.runtime.host import Halt, Host
from distributary.ingest.runtime.logs import LineBudget
from distributary.ingest.runtime.policies import Policies, policies_written
from distributary.ingest.runtime.settings import Settings
from distributary.ingest.runtime.watched import Part
from distributary.ingest.security.access import Access, AccessFiles
from distributary.pipeline.errors import HomeLost
from distributary.pipeline.log.message_counts import MessageCounts
from distributary.pipeline.subscriptions import policy_table
from distributary.pipeline.tracing.tracer import Tracer

_events = structlog.get_logger("gateway")

#: Seconds that a thread may hold the interpreter against the loop; the default of 5 ms would make
#: every stall of a worker 5 ms long.
SWITCH_SECONDS = 0.000_5
#: Seconds that peers have to answer our close when the gateway stops: no peer is served meanwhile.
FAREWELL_SECONDS = 0.3
#: Signals that tell the process to end.
_ENDS = (signal.SIGTERM, signal.SIGINT)
#: Seconds in which the loop handles a signal that has arrived.
_HEARD_SECONDS = 0.01
_STANDS_BY = "it stands by for the home's owner"


class _Probes(msgspec.Struct, frozen=True):
    """Reports of the gateway's state: to HTTP clients, and to its service manager."""

    http: HttpServer
    notice: ServiceNotice

    def close(self) -> None:
        self.notice.close()
        self.http.close()


class _Files(msgspec.Struct, frozen=True):
    """The last valid content of the settings' files, kept over all lives of the process."""

    access: AccessFiles
    policies: Part[policy_table.Policies]


def run(served: ServedLog, settings: Settings, lines: LineBudget, *, standby: bool = False) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code. A standby first waits until the
    home's owner has gone; a gateway that has given its log to another one goes on as a standby.
    `lines` reports periodically which log lines were left out. Raises StoreError, HomeLocked,
    InvalidRequest when it can't start."""
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        # Errors in the settings' files show now, not when the home has been taken over.
        files = _Files(AccessFiles(settings), policies_written(settings))
        while (code := _live(served, settings, files, lines, standby=standby)) is None:
            standby = True
            Collecting.end()
    finally:
        lines.tell(all_of_it=True)
    return code


def _live(
    served: ServedLog, settings: Settings, files: _Files, lines: LineBudget, *, standby: bool
) -> int | None:
    """Run one life as a standby, as an owner, or as both; only `files` go over into the next one.
    Return the exit code; None: the process goes on with a next life."""
    home, sockets = served.home(settings), FewAtOnce()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(sockets)) as runner:
        return runner.run(_run(served, home, settings, files, lines, sockets, standby=standby))


async def _run(
    served: ServedLog,
    home: AnyHome,
    settings: Settings,
    files: _Files,
    lines: LineBudget,
    sockets: FewAtOnce,
    *,
    standby: bool,
) -> int | None:
    loop = asyncio.get_running_loop()
    _tell_left_out(loop, lines)
    counts = MessageCounts(settings.http.metrics_subscriptions_max, sockets.stalls)
    own = served.settings(settings)
    traces = _tracer(loop, own)
    host = Host(loop, own, Halt(loop), counts, traces, sockets.turn, served.name)
    for signum in _ENDS:
        loop.add_signal_handler(signum, host.halt.ask)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
    access = Access(loop, settings, files.access)
    policies = Policies(loop, files.policies, settings.delivery.pattern_style)
    access.watch()  # a standby, too: a file that can't be used is told when it was written
    policies.watch()
    loop.add_signal_handler(signal.SIGHUP, _reload, access, policies)
    loop.add_signal_handler(signal.SIGUSR1, lines.turn)
    probes = _Probes(HttpServer(host, WaitingSite(_STANDS_BY)), ServiceNotice(loop, os.environ))
    owned = None if standby else home.acquire()
    fleet = served.fleet(host)
    if standby:
        await probes.http.open()
        probes.notice.ready(_STANDS_BY)
        owned = await stand_by(home, host, fleet)
    if owned is None:
        await fleet.close()
        probes.close()
        access.close()
        policies.close()
        return 0
    served = served.taken(owned.address, settings)
    host = msgspec.structs.replace(host, settings=served.settings(settings), log=served.name)
    heartbeat = Heartbeat(host, owned.owner)
    try:
        code = await _serve(served, host, access, policies, owned, heartbeat, fleet, probes)
    finally:
        probes.close()
        heartbeat.stop()
        access.close()
        policies.close()
        owned.owner.release()
        await fleet.close()
        if host.traces is not None:  # last: a slow collector doesn't delay giving the home back
            await host.traces.close()
    return None if not code and await _goes_on(host.halt) else code


async def _goes_on(halt: Halt) -> bool:
    """Whether the process goes on as a standby. If so, a signal to end that comes from now on is
    handled in the next life."""
    if halt.goes_on:
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
        await asyncio.sleep(_HEARD_SECONDS)
    return halt.goes_on


async def _serve(
    served: ServedLog,
    host: Host,
    access: Access,
    policies: Policies,
    owned: OwnedHome,
    heartbeat: Heartbeat,
    fleet: FleetPart,
    probes: _Probes,
) -> int:
    loop, settings = host.loop, host.settings
    member = served.member(settings)  # an owned log's placement can't change any more
    # Announced before the home is opened: other gateways connect as soon as this one listens.
    notice = None if member is None or member.is_private else member.notice(settings, loop)
    store, owner = owned.open(settings), owned.owner
    relaying = OneLog() if member is None else member.relaying(host, access)
    access.look()  # the last look may be old: the loop hasn't turned while the home was opened
    policies.look()
    messages = MessageLoop(host, store, access, policies, heartbeat.sure, relaying)
    engine = messages.engine
    loop.set_exception_handler(lambda _loop, context: _crashed(host.halt, context))
    heartbeat.started()
    sources = MetricSources(
        messages.directory, messages.validator, messages.relays, messages.transactions
    )
    metrics = GatewayMetrics(host, engine, messages.parts, sources, fleet)
    probes.http.show(ServingSite(host.halt, heartbeat.sure, messages.full, metrics))
    listener = Listener(
        loop, settings, lambda: Connection(engine), lambda: access.tls, engine.room, engine.broke
    )
    await listener.open(patient=owner.taken)
    Collecting(loop, engine.ends).begin()
    await probes.http.open()
    if host.traces is not None:
        host.traces.open()
    log = {} if member is None else {"log": member.log}
    _events.info("listening", address=listener.address, home=owned.address, **log)
    probes.notice.ready(f"it serves on {settings.gateway.listen}")
    if member is not None:
        fleet.serves(member.log, owner)
    failure = await host.halt.ended()
    if not host.halt.goes_on:
        probes.notice.stops()
    if failure is None:
        await fleet.rest()
        failure = await leave(owner, fleet.heir, messages.parts.log, host.halt)
    listener.close()
    if notice is not None:
        notice.close()
    await _part(engine, owner, failure)
    messages.quiet()
    await messages.close(failed=failure is not None)
    if failure is not None:
        _events.error("gateway.stopped", reason=failure)
        return 1
    if host.halt.goes_on:
        _events.info("log.given", log=host.log)
    else:
        _events.info("gateway.stopped")
    return 0


def _tracer(loop: asyncio.AbstractEventLoop, settings: Settings) -> Tracer | None:
    """Return the tracer of messages; None, without importing it, where `traces.endpoint` is empty.
    Raises InvalidRequest when its libraries aren't installed."""
    if not settings.traces.endpoint:
        return None
    from distributary.ingest.tracing.message_tracing import MessageTracing  # noqa: PLC0415

    return MessageTracing(loop, settings.traces, settings.gateway.container_id)


def _tell_left_out(loop: asyncio.AbstractEventLoop, lines: LineBudget) -> None:
    """Log after each window, from now on, which log lines were left out."""
    lines.tell()
    loop.call_later(lines.seconds, _tell_left_out, loop, lines)


def _reload(access: Access, policies: Policies) -> None:
    access.reload()
    policies.reload()


def _owned(owner: HomeOwner) -> bool:
    try:
        owner.check()
    except HomeLost:
        return False
    return True


def _crashed(halt: Halt, context: dict[str, object]) -> None:
    """Halt for an exception that reached the loop: a bug that isn't one peer's alone."""
    error = context.get("exception")
    if isinstance(error, ConnectionError | TimeoutError | ssl.SSLError):
        return  # of a peer's socket: `connection_lost` handles it
    _events.error(
        "gateway.bug",
        reason=str(context.get("message")),
        exc_info=error if isinstance(error, BaseException) else None,
    )
    halt.now(f"a bug: {error!r}")


async def _part(engine: Engine, owner: HomeOwner, failure: str | None) -> None:
    """Close all connections, and tell peers the reason unless the home has another owner by now.
    All sockets are closed on return: ending the threads may take long where a store doesn't answer.
    """
    if failure is not None and not _owned(owner):
        engine.abort()
    else:
        await _farewell(engine, failure)
    await asyncio.sleep(0)  # the loop closes the aborted sockets


async def _farewell(engine: Engine, failure: str | None) -> None:
    """Close every connection with the reason, and give peers a moment to read it."""
    text = f"the gateway stops: {failure}" if failure else "the gateway is shut down"
    condition = "amqp:internal-error" if failure else "amqp:connection:forced"
    for connection in tuple(engine.connections):
        try:
            connection.close(condition, text)
        except Exception as error:  # noqa: BLE001 (a stop for a bug may find more of it)
            engine.broke(error, connection.peer, connection.container)
            connection.abort()
    engine.finish_leaving()
    engine.flush()
    deadline = engine.loop.time() + FAREWELL_SECONDS
    while engine.connections and engine.loop.time() < deadline:  # noqa: ASYNC110 (at the end)
        await asyncio.sleep(0.01)
    for connection in tuple(engine.connections):
        connection.abort()
