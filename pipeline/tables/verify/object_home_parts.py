"""A home without a disk for `verify` and `info`: read from the store, not from its gateway."""

from distributary.pipeline.errors import JournalBroken, JournalVersion, being_restored
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.object_journal.entry import Entry
from distributary.pipeline.object_journal.take_over import last_standing
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.object_home.journal_objects import JournalObjects
from distributary.pipeline.tables.object_home.object_home import ObjectHome, entry_path
from distributary.pipeline.tables.object_home.object_marks import read_marks
from distributary.pipeline.tables.recovery.dispatch_marks import left_in
from distributary.pipeline.tables.topic_log.table_view import Replaced, open_view
from distributary.pipeline.tables.verify import verify_entries
from distributary.pipeline.tables.verify.home_parts import HomeParts, check_marks
from distributary.pipeline.tables.verify.verify_journal import JournalView, decoded

#: Seconds that one request may take, at most.
REQUEST_SECONDS_MAX = 30.0
NOTHING = JournalView(0, 0, (), None, lasting=False)


def object_parts(home: ObjectHome, table: str) -> HomeParts:
    """Return the parts of a home at an address; its log's table lies at `table`. Raises
    InvalidRequest for an impossible address, and for a home that a restore has left half done."""
    store, place = home.store(REQUEST_SECONDS_MAX), ObjectStore(table, home.options)
    if store.exists(RESTORING):
        raise being_restored(home.url)

    def look() -> tuple[str, bool]:
        live = open_view(place).state.live if verify_entries.made(place) else 0
        left = left_in(read_marks(store, live), b"", home.url)
        return left.found, left.unknown and bool(live)

    return HomeParts(
        home.url,
        place,
        lambda: _journal(JournalObjects(store), place, home.url),
        lambda: check_marks(f"{home.url}/dispatch", look),
    )


def _journal(objects: JournalObjects, place: Store, home: str) -> JournalView:
    """Read the live journal's groups behind the table's last one."""
    if not verify_entries.made(place):
        return NOTHING
    state = open_view(place).state
    if not state.live:
        return NOTHING
    last = last_standing(state.group, objects.kinds(state.live))
    groups = range(state.group + 1, last + 1)
    try:
        frames = tuple(
            decoded(_read(objects, state.live, group).frame, f"{home}, group {group}", group)
            for group in groups
        )
    except (JournalBroken, JournalVersion) as error:
        return JournalView(1, 0, (), None, (str(error),), lasting=False)
    size = sum(frame.size for frame in frames)
    return JournalView(1, size, frames, None, lasting=False)


def _read(objects: JournalObjects, epoch: int, group: int) -> Entry:
    try:
        return objects.read(epoch, group)
    except FileNotFoundError as error:
        raise Replaced(f"{entry_path(epoch, group)} went while it was read") from error
