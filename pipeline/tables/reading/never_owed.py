"""Messages that a subscription was never owed, in any incarnation: those of its own container if it
is no-local, those of topics that the maker of its pattern may not consume from, and those that were
redriven for another subscription alone.

Each such message is settled in its own group, for the incarnation of that time. An operation that
begins a new incarnation at an earlier sequence must settle them for that one, too.
"""

from array import array
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.outcome import Outcome

_OUTCOMES = (Outcome.LOCAL, Outcome.FORBIDDEN, Outcome.REDRIVEN)
#: Attempts to read the table, whose files may be merged meanwhile.
_TRIES_MAX = 3


def never_owed(
    uri: str, settlements: Callable[[], Iterator[pq.ParquetFile]], subscription: str, since: int
) -> dict[Outcome, "array[int]"]:
    """Return the committed ones of these sequences from `since` on, ascending, by outcome.
    `settlements` opens the files of settlements of the table at `uri`, as it is now. Raises
    StoreError.

    Called on a thread of its own. In most row groups only the columns of subscriptions and outcomes
    are read.
    """
    for _ in range(_TRIES_MAX):
        try:
            return _read(settlements(), subscription, since)
        except FileNotFoundError:
            continue
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{uri} can't be read: {error}") from error
    raise StoreError(f"{uri} can't be read: its files change too quickly")


def _read(
    files: Iterator[pq.ParquetFile], subscription: str, since: int
) -> dict[Outcome, "array[int]"]:
    found: dict[Outcome, set[int]] = {outcome: set() for outcome in _OUTCOMES}
    for opened in files:
        with opened as file:
            for nth in range(file.num_row_groups):
                _add(file, nth, subscription, since, found)
    return {outcome: array("q", sorted(some)) for outcome, some in found.items() if some}


def _add(
    file: pq.ParquetFile,
    nth: int,
    subscription: str,
    since: int,
    found: dict[Outcome, set[int]],
) -> None:
    """Add the sequences in one row group."""
    whose = file.read_row_group(nth, columns=["subscription", "outcome"], use_threads=False)
    own = pc.equal(whose["subscription"], pa.scalar(subscription, pa.string()))
    for outcome in _OUTCOMES:
        rows = pc.and_(own, pc.equal(whose["outcome"], pa.scalar(outcome.value, pa.string())))
        if not pc.any(rows).as_py():
            continue
        lists = file.read_row_group(nth, columns=["sequences"], use_threads=False)["sequences"]
        values = pc.list_flatten(lists.filter(rows)).to_numpy()
        found[outcome].update(values[values >= since].tolist())
