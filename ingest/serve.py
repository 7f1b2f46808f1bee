"""The life of a gateway: lock, replay, listen, serve, stop."""

import asyncio
import gc
import os
import signal
import ssl
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import structlog

from ingest.delivery import DeliveryService
from ingest.engine import Engine
from ingest.log import Log
from ingest.service import Gateway
from ingest.settings import Settings
from ingest.users import Users
from pipeline.errors import InvalidRequest, StoreError
from pipeline.tables import snapshot
from pipeline.tables.home import Home
from pipeline.tables.journal import Journal
from pipeline.tables.owner import lock
from pipeline.tables.segment import FrameRef
from pipeline.tables.topic_log import TopicLog

_events = structlog.get_logger("gateway")

#: Seconds that a thread may hold the interpreter against the loop; the default of 5 ms would make
#: every stall of a worker 5 ms long.
SWITCH_SECONDS = 0.000_5
#: Seconds that peers have to answer our close when the gateway stops.
FAREWELL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Store:
    """What was found at the start: the journal is empty, and the table has all."""

    journal: Journal
    table: TopicLog
    snapshot: snapshot.Snapshot


def run(home: Home, settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; the exit code. Raises StoreError, HomeLocked, InvalidRequest
    when it can't start."""
    sys.setswitchinterval(SWITCH_SECONDS)
    with lock(home):
        return asyncio.run(_serve(home, settings))


def open_store(home: Home, settings: Settings) -> Store:
    """Open the home's journal and table, and commit what the table lacks, exactly once."""
    began = time.perf_counter()
    journal = Journal.open(home.journal_dir, segment_bytes=settings.journal.segment_bytes)
    if journal.opened.cut is not None:
        cut = journal.opened.cut
        _events.warning(
            "journal.cut",
            file=str(cut.path),
            offset=cut.offset,
            then="that group was never accepted; nothing is lost",
        )
    table = TopicLog.open(home.topic_log)
    _replay(journal, table, settings.commit.bytes)
    state = snapshot.load(home, table)
    _events.info(
        "store.opened",
        subscriptions=len(state.subscriptions),
        next_sequence=state.next_sequence,
        source=state.source,
        milliseconds=round((time.perf_counter() - began) * 1_000),
    )
    return Store(journal, table, state)


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
    journal.recycle(table.journal_version)


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


async def _serve(home: Home, settings: Settings) -> int:
    loop = asyncio.get_running_loop()
    security = settings.security
    users = Users.read(Path(security.users)) if security.users else None
    tls = _tls(settings)
    store = open_store(home, settings)
    state = store.snapshot
    log = Log(
        loop,
        settings,
        store.journal,
        store.table,
        next_group=state.next_group,
        next_sequence=state.next_sequence,
    )
    gateway = Gateway(loop, settings, log, state, users)
    mechanisms = ("PLAIN", "ANONYMOUS") if security.anonymous else ("PLAIN",)
    engine = Engine(loop, gateway, settings.amqp, mechanisms, check_passwords=users is not None)
    delivery = DeliveryService(loop, settings, log, store.table, engine.flush)
    gateway.bind(engine, delivery)
    end: asyncio.Future[str | None] = loop.create_future()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, _end, end, None)
    log.stopped = delivery.stopped = lambda reason: _end(end, reason)
    loop.set_exception_handler(lambda _loop, context: _crashed(end, context))
    server = await _listen(loop, engine, settings, tls)
    # What lives until now lives as long as the process: the collector need not walk over it.
    gc.collect()
    gc.freeze()
    _events.info("listening", address=settings.gateway.listen, home=str(home.root))
    failure = await end
    server.close()
    await _farewell(engine, failure)
    delivery.close()
    await log.close()
    if failure is not None:
        _events.error("gateway.stopped", reason=failure)
        return 1
    _events.info("gateway.stopped")
    return 0


async def _listen(
    loop: asyncio.AbstractEventLoop, engine: Engine, settings: Settings, tls: ssl.SSLContext | None
) -> asyncio.Server:
    host, port = settings.gateway.address
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
        raise InvalidRequest(f"can't listen on {host}:{port}: {reason}") from None


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
