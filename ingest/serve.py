"""The life of a gateway: own the home or wait for it, replay, listen, serve, stop."""

import asyncio
import errno
import gc
import os
import signal
import ssl
import sys
import time
from dataclasses import dataclass
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
from ingest.tables import table_store
from ingest.users import Users
from pipeline.cursor import Doubt
from pipeline.errors import HomeLost, InvalidRequest, StoreError
from pipeline.tables import snapshot
from pipeline.tables.arrow import without_pandas
from pipeline.tables.home import Home
from pipeline.tables.journal import Journal, Opened
from pipeline.tables.marks import Marks, Standpoint
from pipeline.tables.owner import Owner, Standby, acquire
from pipeline.tables.segment import FrameRef
from pipeline.tables.topic_log import TopicLog

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


@dataclass(frozen=True, slots=True)
class Store:
    """What was found at the start: the journal is empty, and the table has all."""

    journal: Journal
    table: TopicLog
    snapshot: snapshot.Snapshot
    marks: Marks
    doubts: dict[str, Doubt]


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


def open_store(home: Home, settings: Settings, owner: Owner) -> Store:
    """Open the home's journal and table, and commit what the table lacks, exactly once.

    After a take-over from an owner that may still live its commits are fenced off first, and its
    files are read and left.
    """
    began = time.perf_counter()
    place = table_store(home, settings)
    table = TopicLog.open(home.topic_log, store=place, limits=settings.upkeep.limits)
    if owner.taken:
        table.fence(owner.epoch)
    used = settings.journal.durability == "journal"
    journal = Journal.open(
        home.journal_dir,
        segment_bytes=settings.journal.segment_bytes,
        epoch=owner.epoch,
        adopt=used and not owner.taken,
        owned=owner.check,
    )
    _say_what_was_found(journal.opened)
    _replay(journal, table, settings.commit.bytes)
    if owner.taken or not used:
        journal.clear()
    if used:
        journal.recycle(table.journal_version)
    state = snapshot.load(home, table)
    marks, doubts = Marks.open(
        home.marks,
        [Standpoint(one.key.id, one.floor) for one in state.subscriptions],
        head=state.next_sequence,
        next_group=state.next_group,
    )
    _events.info(
        "store.opened",
        subscriptions=len(state.subscriptions),
        next_sequence=state.next_sequence,
        source=state.source,
        marks=marks.found,
        doubtful=sum(1 for doubt in doubts.values() if doubt.below),
        milliseconds=round((time.perf_counter() - began) * 1_000),
    )
    return Store(journal, table, state, marks, doubts)


def _say_what_was_found(opened: Opened) -> None:
    if opened.cut is not None:
        _events.warning(
            "journal.cut",
            file=str(opened.cut.path),
            offset=opened.cut.offset,
            then="that group was never accepted; nothing is lost",
        )
    if opened.strays:
        _events.warning(
            "journal.strays",
            files=[str(path) for path in opened.strays],
            then="an owner that had lost the home wrote them and accepted nothing; they are gone",
        )


def _replay(journal: Journal, table: TopicLog, bytes_max: int) -> None:
    """Commit the groups that the journal has and the table has not, in commits of bounded size."""
    refs = [ref for ref in journal.frames() if ref.group > table.journal_version]
    if refs and refs[0].group != table.journal_version + 1:
        raise StoreError(
            f"the table ends with group {table.journal_version} but the journal begins with "
            f"{refs[0].group}: groups are missing. Was another home's journal or table put here?"
        )
    while refs:
        part: list[FrameRef] = []
        size = 0
        while refs and (not part or size + refs[0].size <= bytes_max):
            size += refs[0].size
            part.append(refs.pop(0))
        commit = table.commit(journal.read(part))
        _events.info("journal.replayed", groups=len(part), bytes=size, version=commit.version)


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
    if failure is not None:
        marking.keep()
    if failure is not None and not _owned(owner):
        log.halt()
        engine.abort()
    else:
        await _farewell(engine, failure)
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
