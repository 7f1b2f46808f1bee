"""The facts of a home without a disk. Objects of the trial are its own, and removed."""

import os
import time
from datetime import UTC, datetime
from secrets import token_hex
from statistics import quantiles
from typing import Final

from distributary.pipeline.checkup.findings import PUTS, StoreFacts
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.object_journal import entry
from distributary.pipeline.object_journal.entry import Kind
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.object_home.journal_objects import JournalObjects
from distributary.pipeline.tables.object_home.lease import lease_of, request_seconds, shown_life
from distributary.pipeline.tables.object_home.object_home import ObjectHome
from distributary.pipeline.tables.object_home.store_conditions import PROBE, keeps_conditions
from distributary.pipeline.tables.topic_log.table_view import open_view
from distributary.pipeline.tables.verify.verify_entries import made

#: Seconds of one request.
_REQUEST_SECONDS: Final = 10.0
_BYTES: Final = 4_096


def store_facts(home: ObjectHome, table: str, lease_seconds: float) -> StoreFacts:
    """Return the facts of a home without a disk; its log's table lies at `table`. Blocks for a part
    of a lease where the home has an owner."""
    try:
        return _facts(home, ObjectStore(table, home.options), lease_seconds)
    except (OSError, StoreError, InvalidRequest) as error:
        return StoreFacts(home.url, why=str(error).rstrip("."))


def _facts(home: ObjectHome, table: ObjectStore, lease_seconds: float) -> StoreFacts:
    store = home.store(_REQUEST_SECONDS)
    kept = keeps_conditions(store)
    times, clock = _puts(store)
    cut = quantiles(times, n=100)
    owner, lives = _owner(home, lease_seconds)
    has_log = made(table)
    return StoreFacts(
        home.url,
        keeps_conditions=kept,
        put_p50_ms=1_000 * cut[49],
        put_p99_ms=1_000 * max(times),
        put_ms_max=1_000 * request_seconds(lease_seconds),
        clock_seconds=clock,
        owner=owner,
        owner_lives=lives,
        has_log=has_log,
        restoring=store.exists(RESTORING),
        left=_left(store, open_view(table).state.live if has_log else 0),
    )


def _puts(store: ObjectStore) -> tuple[list[float], float]:
    """Return the seconds of puts, and how far the store's clock is ahead of ours."""
    path, data, times = f"{PROBE}/{token_hex(8)}", os.urandom(_BYTES), []
    try:
        for _ in range(PUTS):
            began = time.perf_counter()
            store.put(path, data)
            times.append(time.perf_counter() - began)
        ours = datetime.now(UTC).timestamp()
        return times, store.written_at(path) - ours
    finally:
        store.delete([path])


def _owner(home: ObjectHome, lease_seconds: float) -> tuple[str, bool]:
    """Return the home's owner by its lease, and whether the lease is renewed."""
    claim, lives = shown_life(lease_of(home, lease_seconds))
    if claim is None:
        return "", False
    return f"the gateway with pid {claim.pid} on {claim.host}", lives


def _left(store: ObjectStore, live: int) -> int:
    """Return the number of groups in journals that aren't live."""
    objects = JournalObjects(store)
    epochs = (int(name) for name in store.folders("journal") if name.isdigit())
    others = [epoch for epoch in epochs if entry.folder(epoch) != entry.folder(live)]
    return sum(kind is Kind.GROUP for epoch in others for kind in objects.kinds(epoch).values())
