"""All subscriptions, queues and topics that one user may see, read in parts and remembered.

Rule 1: only wanted lists are read: a sweep begins when a list is asked for and the last one
        is `sweep_seconds` old; a short list's when asking for it has cost `sweep_part` of the time.
Rule 2: the first sweep is read at once, and shown as far as it has come; each later one so slowly
        that asking takes `sweep_part` of the time at most, and the rows of the last one are shown
        until it ends.
Rule 3: `rows_max` rows are kept at most.
Rule 4: a slow sweep is given up when no page has asked for `quiet_seconds`: the next page that
        asks begins another one.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from distributary.ingest.console.asking.gateway_line import GatewayLine
from distributary.ingest.console.insight.entity_lists import ATTRIBUTES, Row
from distributary.ingest.console.settings.console_settings import AskingSettings
from distributary.jobs.client.management_client import Refused, Unanswered
from distributary.pipeline.management.management_messages import Entity, Verb

#: Seconds that a page waits for the first part of the first sweep.
FIRST_SECONDS: Final = 0.5
#: Rows of a short list, which takes a few questions and is read in one go.
QUICK_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class Known:
    """Known rows of one type. `at` is when its sweep ended, in seconds since 1970, None while the
    first one is under way; `total` is how many there are, `why` the last error, `missing` why logs
    of a lake couldn't be asked."""

    rows: Sequence[Row] = ()
    at: float | None = None
    total: int = 0
    why: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Type:
    known: Known = field(default_factory=Known)
    began: float | None = None
    ended: float = -1e9
    quick: bool = False
    wait: float = 0.0  #: seconds until the next sweep
    asked: float = 0.0  #: when a page wanted it last
    first: threading.Event = field(default_factory=threading.Event)


class Sweeps:
    """The sweeps of one account, over its line; thread-safe. A thread that ends by itself asks the
    gateway; pages ask theirs between two of its questions."""

    def __init__(self, line: GatewayLine, settings: AskingSettings, rows_max: int) -> None:
        self._line, self._settings, self._rows_max = line, settings, rows_max
        self._types = {entity: _Type() for entity in ATTRIBUTES}
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def known(self, entity: Entity) -> Known:
        """Return the known rows, and begin a sweep when they are old. Waits FIRST_SECONDS at most
        where nothing is known."""
        self.peek(entity)
        one = self._types[entity]
        one.first.wait(FIRST_SECONDS)
        return one.known

    def peek(self, entity: Entity) -> Known:
        """The same without waiting for anything."""
        one = self._types[entity]
        with self._lock:
            one.asked = time.monotonic()
            if one.began is None and one.asked - one.ended > one.wait:
                one.began = one.asked
                name, words = f"sweep over {entity.value}", (entity, one)
                threading.Thread(target=self._sweep, name=name, args=words, daemon=True).start()
        return one.known

    def stale(self) -> None:
        """Forget that the rows are fresh, after a change by this console: the next page that asks
        begins a sweep, and waits for a short one."""
        with self._lock:
            for one in self._types.values():
                one.ended, one.quick = -1e9, one.known.total <= QUICK_ROWS
                if one.quick and one.began is None:
                    one.first.clear()

    def close(self) -> None:
        """Ask nothing more; a sweep that pauses ends now."""
        self._closed.set()

    def _sweep(self, entity: Entity, one: _Type) -> None:
        rows: dict[tuple[str, str], Row] = {}
        total, place, asked, given_up = 1, None, 0.0, False
        missing: dict[str, str] = {}
        try:
            while len(rows) < self._rows_max and not self._closed.is_set():
                asked_at = time.monotonic()
                part = self._part(entity, place)
                took = time.monotonic() - asked_at
                if not part["missing"]:  # else it has waited for an owner, which costs nothing
                    asked += took
                total, place = int(part["total"]), part["next"]
                missing.update(part["missing"])
                for values in part["results"]:
                    row = _row(dict(zip(part["attributeNames"], values, strict=True)))
                    rows[str(row["log"]), str(row["name"])] = row
                if place is None:
                    break
                if one.known.at is None and not one.quick:
                    one.known = Known(tuple(rows.values()), None, total, "", missing)
                    one.first.set()
                    self._closed.wait(took)  # pages are made meanwhile
                elif not one.quick and total > QUICK_ROWS:
                    given_up = self._pause(one, took / self._settings.sweep_part - took)
                    if given_up:
                        return
            one.known = Known(tuple(rows.values()), time.time(), len(rows), "", missing)
        except (Unanswered, Refused) as error:
            known = one.known
            one.known = Known(known.rows, known.at, known.total, str(error), known.missing)
        finally:
            one.first.set()
            most = self._settings.sweep_seconds
            quick = min(asked / self._settings.sweep_part, most)
            one.wait = 0.0 if given_up else most if total > QUICK_ROWS else quick
            with self._lock:
                one.began, one.ended, one.quick = None, time.monotonic(), False

    def _pause(self, one: _Type, seconds: float) -> bool:
        """Wait `seconds`; True, and at once, if no page wants the sweep any more."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end and not self._closed.is_set():
            quiet_at = one.asked + self._settings.quiet_seconds
            if now >= quiet_at:
                return True
            self._closed.wait(min(end, quiet_at) - now)
        return False

    def _part(self, entity: Entity, place: str | None) -> Mapping[str, Any]:
        wanted = {"from": place, "attributeNames": list(ATTRIBUTES[entity])}
        return self._line.ask(Verb.QUERY, entity, "", wanted)


def _row(said: dict[str, Any]) -> Row:
    """A row; of a topic's subscriptions only the number is kept."""
    if isinstance(ids := said.pop("subscriptions", None), list):
        said["subscription_count"] = len(ids)
    return said
