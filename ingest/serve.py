"""The life of a gateway: own the home or wait for it, replay, listen, serve, stop."""

import asyncio
import errno
import gc
import os
import signal
import ssl
import sys
import time
from itertools import count
from pathlib import Path

import structlog

from ingest.delivery import DeliveryService
from ingest.engine import Engine
from ingest.heartbeat import Heartbeat
from ingest.log import Log
from ingest.marking import Marking
from ingest.service import Gateway
from ingest.settings import Settings
from ingest.store import open_store
from ingest.users import Users
from pipeline.errors import HomeLost, InvalidRequest
from pipeline.tables.arrow import without_pandas
from pipeline.tables.home import Home
from pipeline.tables.owner import Owner, Standby, acquire

_events = structlog.get_logger("gateway")

#: Seconds that a thread may hold the interpreter against the loop; the default of 5 ms would make
#: every stall of a worker 5 ms long.
SWITCH_SECONDS = 0.000_5
#: Seconds that peers have to answer our close when the gateway stops.
FAREWELL_SECONDS = 1.0
#: Seconds between two collections of cycles among what is new, and how many until all is looked at.
COLLECT_SECONDS = 1.0
COLLECT_ALL_TURNS = 60
#: Seconds between two looks of a standby at the home's lock, and at a port that isn't free yet.
STANDBY_SECONDS = 0.1


def run(home: Home, settings: Settings, *, standby: bool = False) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. As a standby wait first until the home's owner
    has gone. Raises StoreError, HomeLocked, InvalidRequest when it can't start."""
    sys.setswitchinterval(SWITCH_SECONDS)
    without_pandas()
    return asyncio.run(_run(home, settings, standby=standby))


async def _run(home: Home, settings: Settings, *, standby: bool) -> int:
    loop = asyncio.get_running_loop()
    end: asyncio.Future[str | None] = loop.create_future()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, _end, end, None)
    # What is wrong with these files is said now, not when the home has been taken over.
    _users(settings)
    _tls(settings)
    owner = await _stand_by(home, settings, end) if standby else acquire(home)
    if owner is None:
        return 0
    heartbeat = Heartbeat(loop, owner, settings.owner.lease_ms / 1_000)
    try:
        return await _serve(home, settings, owner, heartbeat, end)
    finally:
        heartbeat.stop()
        owner.release()


async def _stand_by(
    home: Home, settings: Settings, end: "asyncio.Future[str | None]"
) -> Owner | None:
    """Wait for the home; None when it is to end before."""
    standby = Standby(home, settings.owner.lease_ms / 1_000)
    waiting = False
    while not end.done():
        owner = standby.attempt(time.monotonic())
        if owner is not None:
            _events.info("standby.took_over", epoch=owner.epoch, from_pid=standby.owner_pid)
            return owner
        if not waiting:
            waiting = True
            _events.info("standby.waiting", home=str(home.root), owner_pid=standby.owner_pid)
        await asyncio.wait([end], timeout=STANDBY_SECONDS)
    return None


def _users(settings: Settings) -> Users | None:
    path = settings.security.users
    return Users.read(Path(path)) if path else None


def _tls(settings: Settings) -> ssl.SSLContext | None:
    security = settings.security
    if not security.tls_certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(security.tls_certificate, security.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidRequest(
            f"security.tls_certificate {security.tls_certificate}: {error}"
        ) from None
    return context


async def _serve(
    home: Home,
    settings: Settings,
    owner: Owner,
    heartbeat: Heartbeat,
    end: "asyncio.Future[str | None]",
) -> int:
    loop = asyncio.get_running_loop()
    security = settings.security
    users = _users(settings)
    tls = _tls(settings)
    store = open_store(home, settings, owner)
    state = store.snapshot
    log = Log(
        loop,
        settings,
        store.journal,
        store.table,
        next_group=state.next_group,
        next_sequence=state.next_sequence,
        owned=owner.check,
    )
    marking = Marking(loop, log, store.marks)
    gateway = Gateway(loop, settings, log, state, store.doubts, marking, users)
    mechanisms = ("PLAIN", "ANONYMOUS") if security.anonymous else ("PLAIN",)
    engine = Engine(
        loop,
        gateway,
        settings.amqp,
        mechanisms,
        check_passwords=users is not None,
        sure=heartbeat.sure,
    )
    delivery = DeliveryService(loop, settings, log, store.table, store.marks, engine.flush)
    gateway.bind(engine, delivery)
    log.stopped = delivery.stopped = marking.stopped = heartbeat.lost = lambda reason: _end(
        end, reason
    )
    loop.set_exception_handler(lambda _loop, context: _crashed(end, context))
    heartbeat.started()
    server = await _listen(loop, engine, settings, tls, patient=owner.taken)
    _collect_here(loop)
    _events.info("listening", address=settings.gateway.listen, home=str(home.root))
    failure = await end
    server.close()
    await _part(engine, log, marking, owner, failure)
    delivery.close()
    await log.close()
    marking.close()
    if failure is not None:
        _events.error("gateway.stopped", reason=failure)
        return 1
    _events.info("gateway.stopped")
    return 0


async def _listen(
    loop: asyncio.AbstractEventLoop,
    engine: Engine,
    settings: Settings,
    tls: ssl.SSLContext | None,
    *,
    patient: bool,
) -> asyncio.Server:
    """Listen. A `patient` one waits for the port: its former owner, when it wakes, gives it up."""
    host, port = settings.gateway.address
    said = False
    while True:
        try:
            return await loop.create_server(
                engine.connection,
                host,
                port,
                ssl=tls,
                ssl_handshake_timeout=settings.amqp.handshake_ms_max / 1_000 if tls else None,
                backlog=1_024,
            )
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            if not patient or error.errno != errno.EADDRINUSE:
                raise InvalidRequest(f"can't listen on {host}:{port}: {reason}") from None
            if not said:
                said = True
                _events.warning("standby.port_in_use", address=f"{host}:{port}", then="it waits")
        await asyncio.sleep(STANDBY_SECONDS)


def _collect_here(loop: asyncio.AbstractEventLoop) -> None:
    """From now on cycles are collected on the loop's thread alone, at set times.

    By itself the collector runs in whichever thread allocates, and what it finds may end in calls
    into Proton, which only this thread may make.
    """
    gc.disable()
    gc.collect()
    gc.freeze()  # what lives until now lives as long as the process: no need to walk over it
    turns = count(1)

    def collect() -> None:
        gc.collect(1 if next(turns) % COLLECT_ALL_TURNS else 2)
        loop.call_later(COLLECT_SECONDS, collect)

    loop.call_later(COLLECT_SECONDS, collect)


def _owned(owner: Owner) -> bool:
    try:
        owner.check()
    except HomeLost:
        return False
    return True


def _end(end: "asyncio.Future[str | None]", reason: str | None) -> None:
    if not end.done():
        end.set_result(reason)


def _crashed(end: "asyncio.Future[str | None]", context: dict[str, object]) -> None:
    """A bug: what is in memory can't be trusted any more, what is on the disk can. Stop."""
    error = context.get("exception")
    if isinstance(error, ConnectionError | TimeoutError | ssl.SSLError):
        return  # a peer's socket; its connection is lost by the ordinary way
    _events.error(
        "gateway.bug",
        reason=str(context.get("message")),
        exc_info=error if isinstance(error, BaseException) else None,
    )
    _end(end, f"a bug: {error!r}")


async def _part(
    engine: Engine, log: Log, marking: Marking, owner: Owner, failure: str | None
) -> None:
    """End with the peers: with a word, unless the home is somebody else's by now."""
    if failure is not None:
        marking.keep()
        if not _owned(owner):
            log.halt()
            engine.abort()
            return
    await _farewell(engine, failure)


async def _farewell(engine: Engine, failure: str | None) -> None:
    """Close every connection with the reason, and give peers a moment to read it."""
    text = f"the gateway stops: {failure}" if failure else "the gateway is shut down"
    condition = "amqp:internal-error" if failure else "amqp:connection:forced"
    for connection in tuple(engine.connections):
        connection.close(condition, text)
    engine.flush()
    deadline = engine.loop.time() + FAREWELL_SECONDS
    while engine.connections and engine.loop.time() < deadline:  # noqa: ASYNC110 (at the end)
        await asyncio.sleep(0.01)
    for connection in tuple(engine.connections):
        connection.abort()
