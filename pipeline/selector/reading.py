"""What a message says under the names that selectors use, read no further than needed.

Rule 1: a value depends on the message and the name alone, never on what else is read.
Rule 2: bytes that aren't what they should be say nothing: the names of that section aren't there.
        No exception comes out.
Rule 3: values come in the classes that `pipeline.selector.evaluate` knows: bool, int of 64 bits,
        float, str. A `ulong` beyond them is approximate; values that JMS has no type for (binary,
        uuid, decimals, lists, maps) are there and equal to nothing.
"""

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from distributary.pipeline.codec.amqp_codes import (
    DESCRIBED,
    FIXED_BYTES,
    LIST0,
    LIST8,
    LIST32,
    LISTS,
    MAP8,
    MAP32,
    SECTION_SYMBOLS,
    SMALLULONG,
    STR8,
    STR32,
    TYPE_NAMES,
    Kind,
)
from distributary.pipeline.codec.amqp_types import (
    DECODE_LIMITS,
    READERS,
    DecodeBudget,
    DecodeError,
    DecodeLimits,
    Value,
    compound,
    read,
    skip,
)
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.codec.rendering import identifier
from distributary.pipeline.codec.sections import HEADER_FIELDS, PROPERTIES_FIELDS
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.selector.lexer import EXACT_END

Values = dict[str, object]
#: Name -> its values in consecutive messages, one for each; None where one says nothing.
Columns = Mapping[str, Sequence[object]]
#: What becomes of a field's value; of None, too.
Become = Callable[[Value], object]


class Columned(Protocol):
    """A reader of the values of some names out of many messages at a time, as `Reader` does.
    `ingest` has a faster one in C, with the same results."""

    def columns(self, batch: RecordBatch, first: int, stop: int) -> tuple[Columns, int]:
        """The values of all its names in the batch's messages with these indices, and about how
        many of their bytes were looked at for that."""


#: Keys and values of application properties that are looked at: a message with more says nothing
#: there. It can't be decoded either (`DECODE_LIMITS`).
ELEMENTS_MAX = DECODE_LIMITS.values_max

#: Bytes that are looked at first: what selectors name stands in front of the body.
HEAD_BYTES = 4_096

_BROKEN = (DecodeError, IndexError, struct.error, UnicodeDecodeError, RecursionError)

#: What is read here has no other values in it, and spends nothing.
_SCALAR = DecodeBudget(0, DecodeLimits(values_max=0))

#: Lists and maps by the width of their sizes.
_NARROW, _WIDE = (LIST8, MAP8), (LIST32, MAP32)

_HEADER, _PROPERTIES = int(Kind.HEADER), int(Kind.PROPERTIES)
_APPLICATION = int(Kind.APPLICATION_PROPERTIES)
_SECTIONS = frozenset(map(int, Kind))


def _as_it_is(value: Value) -> object:
    return value


def _delivery_mode(durable: Value) -> object:
    return "PERSISTENT" if durable is True else "NON_PERSISTENT"


def _priority(priority: Value) -> object:
    return min(priority, 9) if isinstance(priority, int) else 4


def _delivery_count(failed: Value) -> object:
    return 1 + (failed if isinstance(failed, int) else 0)


def _text_form(value: Value) -> object:
    return identifier(value)  # type: ignore[arg-type] # its type was looked at


def _user(user: Value) -> object:
    try:
        return user.decode() if isinstance(user, bytes) else None
    except UnicodeDecodeError:
        return None


#: Name -> (section, field of its list, what the value becomes). Those of the header have a value
#: when the field or the whole section isn't there, too.
FIELDS: dict[str, tuple[int, str, Become]] = {
    "JMSDeliveryMode": (_HEADER, "durable", _delivery_mode),
    "JMSPriority": (_HEADER, "priority", _priority),
    "JMSXDeliveryCount": (_HEADER, "delivery_count", _delivery_count),
    "JMSMessageID": (_PROPERTIES, "message_id", _text_form),
    "JMSXUserID": (_PROPERTIES, "user_id", _user),
    "JMSType": (_PROPERTIES, "subject", _as_it_is),
    "JMSCorrelationID": (_PROPERTIES, "correlation_id", _text_form),
    "JMSTimestamp": (_PROPERTIES, "creation_time", _as_it_is),
    "JMSXGroupID": (_PROPERTIES, "group_id", _as_it_is),
    "JMSXGroupSeq": (_PROPERTIES, "group_sequence", _as_it_is),
}
_LISTS = {_HEADER: HEADER_FIELDS, _PROPERTIES: PROPERTIES_FIELDS}

#: (position in the list, types that it may have, name, what the value becomes), by position.
_Field = tuple[int, frozenset[str], str, Become]


class Reader:
    """Reads the values of these names out of messages. Make one, and use it for many messages."""

    __slots__ = ("_absent", "_last", "_lists", "_named", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._lists: dict[int, list[_Field]] = {}
        self._named: dict[bytes, str] = {}  #: application properties, by their names' bytes
        self._absent: Values = {}  #: what a message without a header says
        for name in self._names:
            if name not in FIELDS:
                self._named[name_bytes(name)] = name
                continue
            section, at, types, become = field_of(name)
            if section == _HEADER:
                self._absent[name] = become(None)
            self._lists.setdefault(section, []).append((at, types, name, become))
        for fields in self._lists.values():
            fields.sort(key=lambda field: field[0])
        last = max(self._lists, default=0)
        self._last = _APPLICATION if self._named else last

    def read(self, blob: Bytes, start: int, stop: int) -> Values:
        """The values of the message that is `blob[start:stop]`; a name without one is missing."""
        values = dict(self._absent)
        head = min(stop, start + HEAD_BYTES)
        if not self._walk(bytes(blob[start:head]), values) and head < stop:
            values = dict(self._absent)
            self._walk(bytes(blob[start:stop]), values)
        return values

    def columns(self, batch: RecordBatch, first: int, stop: int) -> tuple[Columns, int]:
        """As `Columned` says: one message after the other."""
        offsets = memoryview(batch.offsets).cast("B").cast("i")
        rows = [self.read(batch.blob, offsets[at], offsets[at + 1]) for at in range(first, stop)]
        texts = (text for row in rows for text in row.values() if isinstance(text, str))
        looked = sum(map(len, texts))
        return {name: [row.get(name) for row in rows] for name in self._names}, looked

    def _walk(self, data: bytes, values: Values) -> bool:  # noqa: C901, PLR0912 (calls cost more)
        """Gather the values; False if the sections couldn't be followed to the last one needed."""
        at, size, before, last, lists = 0, len(data), 0, self._last, self._lists
        try:
            while at < size:
                if data[at] == DESCRIBED and data[at + 1] == SMALLULONG:  # as everybody
                    section = data[at + 2]
                    at += 3
                else:
                    section, at = _descriptor(data, at)
                if section <= before or section not in _SECTIONS:
                    break
                before = section
                if section == _HEADER:
                    values.clear()  # what it says, it says itself
                if section > last:
                    return True
                code = data[at]
                if code in _NARROW:
                    stop = at + 2 + data[at + 1]
                elif code in _WIDE:
                    stop = at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
                else:
                    stop = skip(data, at)
                if stop > size:
                    break
                if section == _APPLICATION:
                    self._properties(data, at, values)
                    return True
                if section in lists:
                    self._fields(data, at, section, values)
                at = stop
            else:
                return False  # if this is not all of it, the next section begins right behind
        except _BROKEN:
            pass
        if not before:
            values.clear()  # nothing is known of a message that begins with no section
        return False

    def _fields(self, data: bytes, at: int, section: int, values: Values) -> None:
        """The named fields of a list, whose bounds are known."""
        code, count, stop = data[at], 0, at
        try:
            if code in LISTS:
                at, stop, count = compound(data, at + 1, wide=code == LIST32)
            elif code != LIST0:
                return
        except DecodeError:
            return
        field = 0
        for wanted, types, name, become in self._lists[section]:
            if wanted < count:
                try:
                    while field < wanted:
                        at, field = skip(data, at), field + 1
                    if skip(data, at) > stop:
                        continue
                except _BROKEN:
                    continue
                said = field_value(data, at, section, types, become)
            else:
                said = become(None) if section == _HEADER else None
            if said is not None:
                values[name] = said

    def _properties(self, data: bytes, at: int, values: Values) -> None:  # noqa: C901, PLR0912 (as above)
        """The named application properties of a map whose bounds are known; of a name that comes
        twice the last one."""
        code = data[at]
        found: Values = {}
        named = self._named
        try:
            if code == MAP8:
                stop, count = at + 2 + data[at + 1], data[at + 2]
                at += 3
            elif code == MAP32:
                at, stop, count = compound(data, at + 1, wide=True)
            else:
                return
            if count > ELEMENTS_MAX:
                return
            while at < stop:
                if data[at] == STR8:
                    begin, at = at + 2, at + 2 + data[at + 1]
                elif data[at] == STR32:
                    begin, at = at + 5, at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
                else:
                    return
                name = named.get(data[begin:at])
                code = data[at]
                if code == STR8:
                    after = at + 2 + data[at + 1]
                else:
                    after = at + FIXED_BYTES[code] if FIXED_BYTES[code] else skip(data, at)
                if name is not None:
                    found[name] = property_value(data, at, after)
                at = after
                count -= 2
        except _BROKEN:
            return
        if at == stop and not count:
            for name, value in found.items():
                if value is not None:
                    values[name] = value


def name_bytes(name: str) -> bytes:
    """How an application property with this name names itself."""
    return name.encode("utf-8", "surrogatepass")


def field_of(name: str) -> tuple[int, int, frozenset[str], Become]:
    """Of a name in FIELDS: its section, position in the list, types, and what the value becomes."""
    section, field, become = FIELDS[name]
    at = [known for known, _ in _LISTS[section]].index(field)
    return section, at, _LISTS[section][at][1], become


def field_value(
    data: bytes, at: int, section: int, types: frozenset[str], become: Become
) -> object:
    """The value of a list's field, which is whole; None if there is none."""
    if TYPE_NAMES.get(data[at]) not in types:
        return None
    try:
        value = READERS[data[at]](data, at + 1, _SCALAR)[0]
    except _BROKEN:
        return None
    return _known(become(value)) if value is not None or section == _HEADER else None


def _descriptor(data: bytes, at: int) -> tuple[int, int]:
    """The section whose descriptor is written in a way that nobody uses; 0 if it is none."""
    if data[at] != DESCRIBED:
        return 0, at
    descriptor, at = read(data, at + 1)
    if isinstance(descriptor, str):
        return int(SECTION_SYMBOLS.get(descriptor, 0)), at
    return descriptor if isinstance(descriptor, int) else 0, at


def property_value(data: bytes, at: int, after: int) -> object:
    """An application property's value, which lies from `at` to `after`; None if there is none."""
    try:
        if data[at] == STR8:
            return data[at + 2 : after].decode()
        if data[at] in _OPAQUE:
            return _OTHER
        return _known(READERS[data[at]](data, at + 1, _SCALAR)[0])
    except (*_BROKEN, KeyError):
        return None


#: A value that JMS has no type for; the same for all, so that nobody compares them by mistake.
_OTHER = object()
_OPAQUE_TYPES = {"described", "binary", "uuid", "list", "map", "array"}
#: Constructors of such values: what is in them isn't read, however much it is.
_OPAQUE = frozenset(code for code, name in TYPE_NAMES.items() if name in _OPAQUE_TYPES)


def _known(value: object) -> object:
    """The value in a class that selectors know."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value) if value < EXACT_END else float(value)
    return str(value) if isinstance(value, str) else _OTHER
