"""Dead letters: the copy of a message that a subscription has given up, and its restoration.

Rule 1: the bare message (properties to footer) is the same bytes, in the copy and on the way back.
Rule 2: the copy's message annotations have its origin, the reason, the number of attempts and the
        time when it was given up; other annotations stay as they are.
Rule 3: the copy neither expires nor waits: its header keeps `durable` and `priority`, and loses
        `ttl` and `delivery-count`.
"""

import struct
from collections.abc import Iterator
from hashlib import sha256
from itertools import takewhile

import msgspec

from distributary.pipeline.amqp.dead_letter_keys import (
    AT,
    ATTEMPTS,
    DESCRIPTION,
    REASON,
    SEQUENCE,
    SUBSCRIPTION,
    TOPIC,
)
from distributary.pipeline.codec.amqp_codes import LISTS, MAP32, MAPS, SYMBOLS, Kind
from distributary.pipeline.codec.amqp_types import (
    DecodeError,
    Symbol,
    Timestamp,
    Value,
    closed,
    read,
    skip,
)
from distributary.pipeline.codec.amqp_types import compound as elements_of
from distributary.pipeline.codec.amqp_writer import compound, write
from distributary.pipeline.codec.amqp_writer import section as section_of
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.codec.sections import Section, Typed, header, walk
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.model.address import NAME_CHARACTERS_MAX
from distributary.pipeline.model.header_attributes import PRIORITY
from distributary.pipeline.model.outcome import Reason

#: First parts of givers' names that themselves tell the log; other givers' queues name the log,
#: behind the word IN_LOG.
GIVERS = ("queue", "topic")
IN_LOG = "log"
#: Prefix of the names of dead-letter queues.
PREFIX = "DLQ."

#: The reason of a message that no subscription gave up: its topic's schema didn't allow it.
MISFIT = "misfit"
#: Most annotations that a copy keeps; of a message with more, it keeps none but ours.
ANNOTATIONS_MAX = 4_096
_OURS = frozenset({SUBSCRIPTION, TOPIC, SEQUENCE, REASON, ATTEMPTS, AT, DESCRIPTION})


class DeadLetterInfo(msgspec.Struct, frozen=True):
    """The subscription that gave messages up, the reason, and the time (`at`, microseconds)."""

    subscription: str
    topic: str
    reason: Reason
    attempts: int
    at: int


class MisfitInfo(msgspec.Struct, frozen=True):
    """The topic whose schema didn't allow a message, the reason as a sentence, and the time (`at`,
    microseconds)."""

    topic: str
    sentence: str
    at: int


class Copy(msgspec.Struct, frozen=True):
    """A message's bytes, and two fields of its header."""

    data: bytes
    durable: bool
    priority: int


class Origin(msgspec.Struct, frozen=True):
    """The origin of a dead letter, by its annotations."""

    subscription: str
    topic: str
    sequence: int


def queue_of(giver: str, log: str = MAIN) -> str:
    """Return the name of the queue of a subscription's dead letters, or of a topic's
    (`topic/NAME`), unless its policy names another. The name contains the log, unless the giver's
    name tells it: so gateways of a lake find the queue (`pipeline.lake.placement`)."""
    kind, _, _ = giver.partition("/")
    told = log == MAIN or kind in GIVERS
    name = PREFIX + (giver if told else f"{IN_LOG}/{log}/{giver}")
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    told_apart = "~" + sha256(name.encode()).hexdigest()[:16]
    return name[: NAME_CHARACTERS_MAX - len(told_apart)] + told_apart


def copy(message: Bytes, sequence: int, info: DeadLetterInfo) -> Copy:
    """Return the copy of the message with this sequence.

    Annotations that are no AMQP map, or more than ANNOTATIONS_MAX, are left out. A message whose
    first sections can't be read is copied unchanged; the sections behind its annotations aren't
    read.
    """
    said = {
        SUBSCRIPTION: write(info.subscription),
        TOPIC: write(info.topic),
        SEQUENCE: write(Typed("ulong", sequence)),
        REASON: write(str(info.reason)),
        ATTEMPTS: write(Typed("uint", info.attempts)),
        AT: write(Timestamp(info.at // 1_000)),
    }
    return _annotated(bytes(message), said)


def copy_of_misfit(message: Bytes, info: MisfitInfo) -> Copy:
    """Return the copy of a message that its topic's schema refused: it had no sequence, and no
    subscription was owed it."""
    said = {
        TOPIC: write(info.topic),
        REASON: write(MISFIT),
        DESCRIPTION: write(info.sentence),
        AT: write(Timestamp(info.at // 1_000)),
    }
    return _annotated(bytes(message), said)


def restored(message: Bytes) -> Copy:
    """Return a dead letter without the added annotations, to go back to its origin."""
    return _annotated(bytes(message), {})


def misfit_topic(message: Bytes) -> str | None:
    """Return the topic whose schema didn't allow this message; None for other messages."""
    said = _said(message)
    topic = said.get(TOPIC)
    return topic if said.get(REASON) == MISFIT and isinstance(topic, str) else None


def origin(message: Bytes) -> Origin | None:
    """Return the origin of a dead letter; None for a message that no subscription gave up."""
    said = _said(message)
    subscription, topic, sequence = said.get(SUBSCRIPTION), said.get(TOPIC), said.get(SEQUENCE)
    if not (isinstance(subscription, str) and isinstance(topic, str) and isinstance(sequence, int)):
        return None
    return Origin(subscription, topic, sequence)


def _said(message: Bytes) -> dict[Value, Value]:
    """Return our annotations; none where they can't be read."""
    data = bytes(message)
    try:
        sections = _front(data)
        return {
            key: read(value, 0)[0]
            for name, value in _pairs(data, sections.get(Kind.MESSAGE_ANNOTATIONS))
            if (key := _word(name)) in _OURS
        }
    except _BROKEN:
        return {}


#: Exceptions of reading bytes that are no message.
_BROKEN = (DecodeError, IndexError, struct.error, ValueError)


def _annotated(data: bytes, said: dict[Symbol, bytes]) -> Copy:
    """Return the message with these of our annotations and no others of ours, and a new header."""
    try:
        sections = _front(data)
        head, durable, priority = _header(data, sections.get(Kind.HEADER))
    except DecodeError:
        return Copy(data, durable=True, priority=PRIORITY)
    try:
        pairs = list(_pairs(data, sections.get(Kind.MESSAGE_ANNOTATIONS)))
        elements = [one for pair in pairs if _word(pair[0]) not in _OURS for one in pair]
    except _BROKEN:
        elements = []
    for key, value in said.items():
        elements += (write(key), value)
    annotations = b""
    if elements:
        annotations = section_of(Kind.MESSAGE_ANNOTATIONS, compound(MAPS, elements))
    before = [section.stop for section in sections.values()]
    rest = memoryview(data)[max(before, default=0) :]  # copied once: it may have 16 MiB
    return Copy(b"".join((head, annotations, rest)), durable, priority)


def _front(data: bytes) -> dict[Kind, Section]:
    """Return the sections in front of the bare message: three at most. Raises DecodeError."""
    front = takewhile(lambda section: section.kind < Kind.PROPERTIES, walk(data))
    return {section.kind: section for section in front}


def _header(data: bytes, section: Section | None) -> tuple[bytes, bool, int]:
    """Return the copy's header section (none where the message has none), durable, priority."""
    if section is None:
        return b"", False, PRIORITY
    said = header(data, section)
    fields = [write(said.durable), write(Typed("ubyte", said.priority))]
    return section_of(Kind.HEADER, compound(LISTS, fields)), said.durable, min(said.priority, 9)


def _pairs(data: bytes, section: Section | None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a section's map as encoded bytes. Raises one of _BROKEN."""
    if section is None:
        return
    code = data[section.start]
    if code not in MAPS:
        raise DecodeError(f"section {section.kind.name} is no map at byte {section.start}")
    at, stop, count = elements_of(data, section.start + 1, wide=code == MAP32)
    if count > 2 * ANNOTATIONS_MAX:
        raise DecodeError(f"{count // 2} annotations, more than {ANNOTATIONS_MAX}")
    for _ in range(count // 2):
        middle = skip(data, at)
        end = skip(data, middle)
        yield data[at:middle], data[middle:end]
        at = end
    closed(at, stop)


def _word(key: bytes) -> Value:
    """Return a key of annotations if it is a symbol, else None: our keys are symbols."""
    return read(key, 0)[0] if key[0] in SYMBOLS else None
