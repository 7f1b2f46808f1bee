"""All messages of a blob walked in lock-step: a step reads one value of each message.

The sections of a message stand in a fixed order, so one pass over the kinds of section finds them
all: for each kind, the walk goes over that section in the messages that have it next. A message
that isn't at its end after the last kind has a part that this walk doesn't know.

Rule 1: a message with any uncommon part becomes a *fallback* and is walked no further: this walk
        rejects no message, and uses nothing of a fallback. `one_by_one` decodes it.
Rule 2: `pipeline.codec.sections.decode` decodes each message that isn't a fallback at the end.
"""

from dataclasses import dataclass

import numpy as np

from distributary.pipeline.codec.amqp_codes import (
    BINARIES,
    DESCRIBED,
    FIXED_BYTES,
    LIST0,
    LISTS,
    MAPS,
    SIZE_BYTES,
    SMALLULONG,
    STRINGS,
    SYMBOLS,
    TYPE_NAMES,
    Kind,
)
from distributary.pipeline.codec.sections import HEADER_FIELDS, PROPERTIES_FIELDS
from distributary.pipeline.transforms.decoding.blob import (
    Blob,
    Codes,
    Mask,
    Positions,
    Values,
    no_values,
    table,
)

#: Elements of a map: each is a step for all messages, so a map of thousands would slow all down.
ELEMENTS_MAX = 128

#: Types with values inside, or whose bytes need a check that no other type needs.
UNCOMMON = frozenset({"described", "list", "map", "array", "char", "uuid"})

#: By constructor: whether the walk reads values of it.
COMMON = table(*(code for code in TYPE_NAMES if TYPE_NAMES[code] not in UNCOMMON))
_FIXED, _SIZES = np.frombuffer(FIXED_BYTES, np.uint8), np.frombuffer(SIZE_BYTES, np.uint8)
#: By constructor: bytes of a value of fixed width; bytes in front of a value (constructor and
#: size); whether its size is one byte; whether it is four.
WIDTHS = np.maximum(_FIXED.astype(np.int64) - 1, 0)
HEADS = 1 + _SIZES.astype(np.int64)
SHORT = (_SIZES == 1).astype(np.int64)
_WIDE = _SIZES > 1


def _fields(fields: tuple[tuple[str, frozenset[str]], ...]) -> tuple[Mask, ...]:
    """By field and constructor: whether the field may have such a value."""
    return tuple(
        COMMON & table(*(code for code in TYPE_NAMES if TYPE_NAMES[code] in types))
        for _, types in fields
    )


_HEADER, _PROPERTIES = _fields(HEADER_FIELDS), _fields(PROPERTIES_FIELDS)
#: A body may be any value without a descriptor. The walk doesn't look into lists.
_DATA, _SEQUENCE = table(*BINARIES), table(*LISTS, LIST0)
_VALUE = table(*(code for code in TYPE_NAMES if code))
_KEYS, _ANNOTATION_KEYS = table(*STRINGS), table(*STRINGS, *SYMBOLS)


@dataclass(frozen=True, slots=True)
class Front:
    """Messages with an open container: the place reached in it, where it stops, and the number of
    elements that it claims, which is trusted only when so many have been read."""

    rows: Positions
    at: Positions
    stops: Positions
    counts: Positions

    def where(self, mask: Mask) -> "Front":
        if mask.all():
            return self
        return Front(self.rows[mask], self.at[mask], self.stops[mask], self.counts[mask])


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of one map of each message, in order; `owners` are their messages."""

    owners: Positions
    values: Values


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a walk; fields have one value for each message."""

    header: dict[str, Values]
    properties: dict[str, Values]
    typed_maps: dict[str, Elements]  #: by their column
    footer: Elements
    body: Values
    kinds: Codes  #: the body's section, 0 where there is none
    fallback: Mask


def walk(blob: Blob) -> Found:
    """Walk all messages of a blob."""
    walker = Walker(blob, blob.starts.copy(), blob.missing.copy())
    header = walker.fields(Kind.HEADER, _HEADER)
    annotations = {
        "delivery_annotations": walker.elements(Kind.DELIVERY_ANNOTATIONS, _ANNOTATION_KEYS),
        "message_annotations": walker.elements(Kind.MESSAGE_ANNOTATIONS, _ANNOTATION_KEYS),
    }
    properties = walker.fields(Kind.PROPERTIES, _PROPERTIES)
    entries = walker.elements(Kind.APPLICATION_PROPERTIES, _KEYS)
    body, kinds = no_values(blob.count), np.zeros(blob.count, np.uint8)
    walker.body(Kind.DATA, _DATA, body, kinds)
    walker.body(Kind.SEQUENCE, _SEQUENCE, body, kinds)
    walker.body(Kind.VALUE, _VALUE, body, kinds)
    footer = walker.elements(Kind.FOOTER, COMMON)
    walker.fallback |= walker.at != blob.stops
    return Found(
        header={name: values for (name, _), values in zip(HEADER_FIELDS, header, strict=True)},
        properties={
            name: values for (name, _), values in zip(PROPERTIES_FIELDS, properties, strict=True)
        },
        typed_maps={"properties": entries, **annotations},
        footer=footer,
        body=body,
        kinds=kinds,
        fallback=walker.fallback,
    )


@dataclass(slots=True)
class Walker:
    """The place reached in each message, and a mask of the fallbacks."""

    blob: Blob
    at: Positions
    fallback: Mask

    def fields(self, kind: Kind, allowed: tuple[Mask, ...]) -> list[Values]:
        """Go over a list section: fields in their order, each of a type allowed for it."""
        found = [no_values(self.blob.count) for _ in allowed]
        opened = self._opened(self._section(kind), LISTS)
        opened = self._only(opened, opened.counts <= len(allowed))
        front = opened
        for nth, types in enumerate(allowed):
            front = front.where(front.counts > nth)
            if not len(front.rows):
                break
            front, values = self._step(front, types)
            _put(found[nth], front.rows, values)
        self._closed(opened)
        return found

    def elements(self, kind: Kind, keys: Mask) -> Elements:
        """Go over a map section: keys of these constructors, values of COMMON ones."""
        opened = self._opened(self._section(kind), MAPS)
        opened = self._only(opened, (opened.counts <= ELEMENTS_MAX) & (opened.counts % 2 == 0))
        bases = np.zeros(self.blob.count, np.int64)
        bases[opened.rows] = np.cumsum(opened.counts) - opened.counts
        owners = np.repeat(opened.rows, opened.counts)
        values, front = no_values(len(owners)), opened
        for nth in range(int(opened.counts.max(initial=0))):
            front = front.where(front.counts > nth)
            if not len(front.rows):
                break
            front, read = self._step(front, COMMON if nth % 2 else keys)
            _put(values, bases.take(front.rows) + nth, read)
        self._closed(opened)
        if (dropped := self.fallback.take(owners)).any():
            owners, values = owners[~dropped], values.where(~dropped)
        return Elements(owners, values)

    def body(self, kind: Kind, allowed: Mask, body: Values, kinds: Codes) -> None:
        """Go over a section that is one value; a second section of a body makes a fallback."""
        rows = self._section(kind)
        self.fallback[rows[kinds.take(rows) != 0]] = True
        at = self.at.take(rows)
        everything = np.zeros(len(rows), np.int64)
        front, values = self._step(Front(rows, at, self.blob.stops.take(rows), everything), allowed)
        _put(body, front.rows, values)
        kinds[front.rows] = kind

    def _section(self, kind: Kind) -> Positions:
        """The messages with such a section next; their place becomes that of its value."""
        at = self.at
        here = (self.blob.at(at) == DESCRIBED) & (self.blob.at(at + 1) == SMALLULONG)
        here &= (self.blob.at(at + 2) == kind) & (at < self.blob.stops) & ~self.fallback
        rows = np.flatnonzero(here)
        self.at[rows] += 3
        return self._within(rows)

    def _within(self, rows: Positions) -> Positions:
        beyond = self.at.take(rows) >= self.blob.stops.take(rows)
        self.fallback[rows[beyond]] = True
        return rows[~beyond]

    def _opened(self, rows: Positions, constructors: tuple[int, int]) -> Front:
        """Open the list or map at the place reached in each of these messages."""
        blob, at = self.blob, self.at.take(rows)
        codes = blob.at(at)
        wide = codes == constructors[1]
        known = wide | (codes == constructors[0])
        stops = at + 2 + blob.at(at + 1)
        counts = blob.at(at + 2).astype(np.int64)
        first = at + 3
        if wide.any():
            stops[wide] = at[wide] + 5 + blob.numbers(at[wide] + 1, ">u4").astype(np.int64)
            first[wide] = at[wide] + 9
            counts[wide] = blob.numbers(at[wide] + 5, ">u4")
        if constructors is LISTS and (empty := codes == LIST0).any():
            known |= empty
            counts[empty] = 0
            first[empty] = stops[empty] = at[empty] + 1
        known &= stops <= blob.stops.take(rows)
        opened = self._only(Front(rows, first, stops, counts), known)
        self.at[opened.rows] = opened.at
        return opened

    def _step(self, front: Front, allowed: Mask) -> tuple[Front, Values]:
        """Read one value of each message; one without an allowed value is a fallback."""
        blob, at = self.blob, front.at
        codes = blob.at(at)
        heads = HEADS.take(codes)
        stops = at + heads
        starts = stops.copy()
        stops += WIDTHS.take(codes) + SHORT.take(codes) * blob.at(at + 1)
        if (wide := _WIDE.take(codes)).any():
            stops[wide] += blob.numbers(at[wide] + 1, ">u4").astype(np.int64)
        fine = allowed.take(codes) & (stops <= front.stops)
        if not fine.all():
            front = self._only(front, fine)
            codes, starts, stops = codes[fine], starts[fine], stops[fine]
        self.at[front.rows] = stops
        return Front(front.rows, stops, front.stops, front.counts), Values(codes, starts, stops)

    def _only(self, front: Front, fine: Mask) -> Front:
        """The messages that are `fine`; all others become fallbacks."""
        self.fallback[front.rows[~fine]] = True
        return front.where(fine)

    def _closed(self, opened: Front) -> None:
        """Close containers; one that doesn't end where it said makes its message a fallback."""
        self.fallback[opened.rows[self.at.take(opened.rows) != opened.stops]] = True


def _put(found: Values, places: Positions, values: Values) -> None:
    found.codes[places] = values.codes
    found.starts[places] = values.starts
    found.stops[places] = values.stops
