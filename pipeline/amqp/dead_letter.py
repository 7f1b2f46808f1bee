"""Dead letters: the copy of a message that a subscription has given up, and the way back.

Rule 1: the bare message (properties to footer) is the same bytes, in the copy and on the way back.
Rule 2: the copy says in its message annotations where it comes from, why, how often it was tried
        and when it was given up; what else stands there stays as it is.
Rule 3: the copy neither expires nor waits: its header keeps what says how the message is to be
        treated (durable, priority) and loses what says for how long, and how often it failed.
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

#: Givers that are in a log by their name; the others' queue says it, behind this word.
GIVERS = ("queue", "topic")
IN_LOG = "log"
#: What the dead letters of a subscription are called, and how one knows them by their name.
PREFIX = "DLQ."

#: The reason of a message that no subscription gave up: its topic's schema didn't allow it.
MISFIT = "misfit"
#: Annotations that a copy keeps, at most: of a message with more none is kept but ours.
ANNOTATIONS_MAX = 4_096
_OURS = frozenset({SUBSCRIPTION, TOPIC, SEQUENCE, REASON, ATTEMPTS, AT, DESCRIPTION})


class DeadLetterInfo(msgspec.Struct, frozen=True):
    """Who gave messages up, why, and when (microseconds)."""

    subscription: str
    topic: str
    reason: Reason
    attempts: int
    at: int


class MisfitInfo(msgspec.Struct, frozen=True):
    """A message that was published to this topic, whose schema didn't allow it, for the reason in
    the sentence, and when (microseconds)."""

    topic: str
    sentence: str
    at: int


class Copy(msgspec.Struct, frozen=True):
    """A message's bytes, and what its header says."""

    data: bytes
    durable: bool
    priority: int


class Origin(msgspec.Struct, frozen=True):
    """Where a dead letter comes from, by its annotations."""

    subscription: str
    topic: str
    sequence: int


def queue_of(giver: str, log: str = MAIN) -> str:
    """The name of the queue of a subscription's dead letters, or of a topic's (`topic/NAME`),
    unless its policy says another. It says the log of the subscription, where another name in it
    doesn't: gateways of a lake find it so (`pipeline.lake.placement`)."""
    kind, _, _ = giver.partition("/")
    told = log == MAIN or kind in GIVERS
    name = PREFIX + (giver if told else f"{IN_LOG}/{log}/{giver}")
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    told_apart = "~" + sha256(name.encode()).hexdigest()[:16]
    return name[: NAME_CHARACTERS_MAX - len(told_apart)] + told_apart


def copy(message: Bytes, sequence: int, info: DeadLetterInfo) -> Copy:
    """The copy of a message that had this sequence.

    Annotations that are no map of AMQP's, or more than ANNOTATIONS_MAX, are left out. A message
    whose first sections can't be told apart is copied as it is; what stands behind its annotations
    isn't looked at.
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
    """The copy of a message that never was one of its topic: it had no sequence, and no
    subscription was owed it."""
    said = {
        TOPIC: write(info.topic),
        REASON: write(MISFIT),
        DESCRIPTION: write(info.sentence),
        AT: write(Timestamp(info.at // 1_000)),
    }
    return _annotated(bytes(message), said)


def restored(message: Bytes) -> Copy:
    """A dead letter as it goes back to where it comes from: without what was added to it."""
    return _annotated(bytes(message), {})


def misfit_topic(message: Bytes) -> str | None:
    """The topic whose schema didn't allow this message; None for one that is no such dead
    letter."""
    said = _said(message)
    topic = said.get(TOPIC)
    return topic if said.get(REASON) == MISFIT and isinstance(topic, str) else None


def origin(message: Bytes) -> Origin | None:
    """Where a dead letter comes from; None for a message that no subscription gave up."""
    said = _said(message)
    subscription, topic, sequence = said.get(SUBSCRIPTION), said.get(TOPIC), said.get(SEQUENCE)
    if not (isinstance(subscription, str) and isinstance(topic, str) and isinstance(sequence, int)):
        return None
    return Origin(subscription, topic, sequence)


def _said(message: Bytes) -> dict[Value, Value]:
    """What our annotations say; nothing where they can't be read."""
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


#: What reading a message that isn't one may raise.
_BROKEN = (DecodeError, IndexError, struct.error, ValueError)


def _annotated(data: bytes, said: dict[Symbol, bytes]) -> Copy:
    """The message with these of our annotations and no others, and a header for a new life."""
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
    """The sections in front of the bare message: three at most. Raises DecodeError."""
    front = takewhile(lambda section: section.kind < Kind.PROPERTIES, walk(data))
    return {section.kind: section for section in front}


def _header(data: bytes, section: Section | None) -> tuple[bytes, bool, int]:
    """The header section of the copy (none where the message has none), durable, priority."""
    if section is None:
        return b"", False, PRIORITY
    said = header(data, section)
    fields = [write(said.durable), write(Typed("ubyte", said.priority))]
    return section_of(Kind.HEADER, compound(LISTS, fields)), said.durable, min(said.priority, 9)


def _pairs(data: bytes, section: Section | None) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a section's map as they lie there. Raises one of _BROKEN."""
    if section is None:
        return
    code = data[section.start]
    if code not in MAPS:
        raise DecodeError(f"section {section.kind.name} is no map at byte {section.start}")
    at, stop, count = elements_of(data, section.start + 1, wide=code == MAP32)
    if count > 2 * ANNOTATIONS_MAX:
        raise DecodeError(f"{count // 2} annotations, of which {ANNOTATIONS_MAX} are looked at")
    for _ in range(count // 2):
        middle = skip(data, at)
        end = skip(data, middle)
        yield data[at:middle], data[middle:end]
        at = end
    closed(at, stop)


def _word(key: bytes) -> Value:
    """A key of annotations, if it is a word of ours: any other one says nothing to us."""
    return read(key, 0)[0] if key[0] in SYMBOLS else None
