"""The schemas of one home: each version that was ever set, and the one that each topic has now."""

from collections.abc import Callable

import msgspec
import structlog

from distributary.ingest.commit.group_log import Log
from distributary.ingest.schemas.check_messages import DefineVersion
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.message import SchemaRecord
from distributary.pipeline.schemas.schema_choice import chosen
from distributary.pipeline.schemas.schema_text import DROPPED, version_of
from distributary.pipeline.schemas.schema_version import SchemaVersion, Validation
from distributary.pipeline.tables.recovery.standpoints import SchemaEvent, Snapshot

_events = structlog.get_logger("gateway")

#: Topics whose schema is cached; then the cache begins anew.
_TOPICS_MAX = 10_000


class CheckedBy(msgspec.Struct, frozen=True):
    """The version by which a topic's messages are checked, and its rule for misfits."""

    version: DefineVersion
    validation: Validation


class SchemaOfTopic(msgspec.Struct):
    """All events of one topic's or pattern's schema, in order, and the version in force."""

    events: list[SchemaEvent] = msgspec.field(default_factory=list)
    current: SchemaVersion | None = None
    text: str = ""

    @property
    def next_version(self) -> int:
        """Number of the next version; none is reused, not even after a drop."""
        found = [version_of("", one.record.text) for one in self.events]
        return max((one.version for one in found if one is not None), default=0) + 1

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of all versions."""
        return tuple(one.record.text for one in self.events if one.record.text != DROPPED)


class SchemaDirectory:
    """Reads and changes the schemas. All methods run on the loop's thread."""

    def __init__(self, log: Log, snapshot: Snapshot, validating: Callable[[], None]) -> None:
        """`validating` is called when some topic's messages are to be checked. Raises
        InvalidRequest for a schema that a later version of the program has set."""
        self._log, self._validating = log, validating
        self._all: dict[str, SchemaOfTopic] = {}
        self._of_topic: dict[str, str | None] = {}
        #: Whether any topic's messages are checked.
        self.validates = False
        for event in snapshot.schemas:
            self._add(event)

    def _add(self, event: SchemaEvent) -> None:
        topic, text = event.record.topic, event.record.text
        one = self._all.setdefault(topic, SchemaOfTopic())
        one.events.append(event)
        one.current = version_of(topic, text)
        one.text = text if one.current is not None else ""
        self._of_topic.clear()
        if one.current is not None and one.current.validation is not Validation.OFF:
            self.validates = True
            self._validating()

    @property
    def count(self) -> int:
        """Versions of all topics together."""
        return sum(len(one.events) for one in self._all.values())

    def names(self) -> list[str]:
        """Return the topics and patterns that have a schema now."""
        return sorted(topic for topic, one in self._all.items() if one.current is not None)

    def get(self, topic: str) -> SchemaOfTopic | None:
        """Return the schema that was set for this very topic or pattern, if any."""
        return self._all.get(topic)

    def of_topic(self, topic: str) -> SchemaOfTopic | None:
        """Return the schema of a topic's messages; None if there is none."""
        if topic not in self._of_topic:
            if len(self._of_topic) >= _TOPICS_MAX:
                self._of_topic.clear()
            self._of_topic[topic] = chosen(self.names(), topic)
        found = self._of_topic[topic]
        return None if found is None else self._all[found]

    def checked_by(self, topic: str) -> CheckedBy | None:
        """Return the version by which this topic's messages are checked when published."""
        if not self.validates:
            return None
        found = self.of_topic(topic)
        if found is None or found.current is None or found.current.validation is Validation.OFF:
            return None
        current = found.current
        name = f"{current.topic}@{current.version}"
        others = tuple(text for text in found.texts if text != found.text)
        version = DefineVersion(name, current.topic, found.text, others)
        return CheckedBy(version, current.validation)

    def record(self, topic: str, text: str, by: str, now: int, then: Callable[[], None]) -> None:
        """Set this version, or drop the schema (`DROPPED`). It holds at once for later messages,
        which aren't durable before it is. `then` is called when it is durable.
        The event begins a group, so events have the order of groups, and its floor is exact."""
        record = SchemaRecord(topic, text, self._log.begin_group(), by)
        self._log.record(record, then)
        self._add(SchemaEvent(record, self._log.last_group, now))
        if text == DROPPED:
            _events.info("schema.dropped", topic=topic, by=by)
        else:
            _events.info("schema.set", topic=topic, by=by)

    def require(self, topic: str) -> SchemaOfTopic:
        """Return the schema of this very topic or pattern. Raises InvalidRequest if none is in
        force."""
        found = self._all.get(topic)
        if found is None or found.current is None:
            raise InvalidRequest(f"there is no schema for '{topic}'")
        return found
