"""Reading of the values that selectors use from a message's bytes, no further than needed.

Rule 1: a value depends on the message and the name alone, not on the other names that are read.
Rule 2: malformed bytes give no values: the names of their section are missing. No exception is
        raised.
Rule 3: values come in the classes that `pipeline.selector.evaluate` knows: bool, int of 64 bits,
        float, str. A `ulong` beyond 64 bits with sign is approximate; a value without a JMS type
        (binary, uuid, decimal, list, map) isn't missing, but equal to no value.
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
#: Name -> its values in consecutive messages, one for each; None where it is missing.
Columns = Mapping[str, Sequence[object]]
#: Converts the value of a field, which may be None.
Become = Callable[[Value], object]


class Columned(Protocol):
    """A reader of the values of some names out of many messages at a time, as `Reader` does.
    `ingest` has a faster one in C, with the same results."""

    def columns(self, batch: RecordBatch, first: int, stop: int) -> tuple[Columns, int]:
        """Return the values of all its names in the batch's messages with these indices, and
        about how many of their bytes were read for that."""


#: Keys and values of application properties at most: a message with more has no values there. It
#: can't be decoded either (`DECODE_LIMITS`).
ELEMENTS_MAX = DECODE_LIMITS.values_max

#: Bytes that are read first: the sections of selectors' names are in front of the body.
HEAD_BYTES = 4_096

_BROKEN = (DecodeError, IndexError, struct.error, UnicodeDecodeError, RecursionError)

#: Budget for values without other values within them.
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


#: Name -> (section, field of its list, conversion). A name of the header has a value even if the
#: field or the whole section is missing.
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

#: (position in the list, allowed types, name, conversion); sorted by position.
_Field = tuple[int, frozenset[str], str, Become]


class Reader:
    """Reads the values of these names from messages. Make one reader for many messages."""

    __slots__ = ("_absent", "_last", "_lists", "_named", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(names)
        self._lists: dict[int, list[_Field]] = {}
        self._named: dict[bytes, str] = {}  #: bytes of a name -> application property
        self._absent: Values = {}  #: values of a message without a header
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
        """Return the values of the message `blob[start:stop]`, without missing ones."""
        values = dict(self._absent)
        head = min(stop, start + HEAD_BYTES)
        if not self._walk(bytes(blob[start:head]), values) and head < stop:
            values = dict(self._absent)
            self._walk(bytes(blob[start:stop]), values)
        return values

    def columns(self, batch: RecordBatch, first: int, stop: int) -> tuple[Columns, int]:
        """Return the values of messages, as `Columned` describes, read one after the other."""
        offsets = memoryview(batch.offsets).cast("B").cast("i")
        rows = [self.read(batch.blob, offsets[at], offsets[at + 1]) for at in range(first, stop)]
        texts = (text for row in rows for text in row.values() if isinstance(text, str))
        looked = sum(map(len, texts))
        return {name: [row.get(name) for row in rows] for name in self._names}, looked

    def _walk(self, data: bytes, values: Values) -> bool:  # noqa: C901, PLR0912 (calls cost more)
        """Read the values; False if the last needed section couldn't be reached."""
        at, size, before, last, lists = 0, len(data), 0, self._last, self._lists
        try:
            while at < size:
                if data[at] == DESCRIBED and data[at + 1] == SMALLULONG:  # as all clients write it
                    section = data[at + 2]
                    at += 3
                else:
                    section, at = _descriptor(data, at)
                if section <= before or section not in _SECTIONS:
                    break
                before = section
                if section == _HEADER:
                    values.clear()  # the header's own values replace the defaults
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
                return False  # the next section may begin behind these bytes
        except _BROKEN:
            pass
        if not before:
            values.clear()  # a message that begins with no section has no values
        return False

    def _fields(self, data: bytes, at: int, section: int, values: Values) -> None:
        """Read the named fields of a list whose bounds were checked."""
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
        """Read the named application properties of a map whose bounds were checked; the last value
        of a repeated name counts."""
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
    """Return the bytes of an application property's name."""
    return name.encode("utf-8", "surrogatepass")


def field_of(name: str) -> tuple[int, int, frozenset[str], Become]:
    """Return the section, position in the list, types and conversion of a name in FIELDS."""
    section, field, become = FIELDS[name]
    at = [known for known, _ in _LISTS[section]].index(field)
    return section, at, _LISTS[section][at][1], become


def field_value(
    data: bytes, at: int, section: int, types: frozenset[str], become: Become
) -> object:
    """Return the value of a complete field of a list; None if it has no value."""
    if TYPE_NAMES.get(data[at]) not in types:
        return None
    try:
        value = READERS[data[at]](data, at + 1, _SCALAR)[0]
    except _BROKEN:
        return None
    return _known(become(value)) if value is not None or section == _HEADER else None


def _descriptor(data: bytes, at: int) -> tuple[int, int]:
    """Return the section of a descriptor in one of the unusual encodings; 0 if it is none."""
    if data[at] != DESCRIBED:
        return 0, at
    descriptor, at = read(data, at + 1)
    if isinstance(descriptor, str):
        return int(SECTION_SYMBOLS.get(descriptor, 0)), at
    return descriptor if isinstance(descriptor, int) else 0, at


def property_value(data: bytes, at: int, after: int) -> object:
    """Return an application property's value, at `at` to `after`; None if null or malformed."""
    try:
        if data[at] == STR8:
            return data[at + 2 : after].decode()
        if data[at] in _OPAQUE:
            return _OTHER
        return _known(READERS[data[at]](data, at + 1, _SCALAR)[0])
    except (*_BROKEN, KeyError):
        return None


#: Stands for every value without a JMS type: such values aren't compared.
_OTHER = object()
_OPAQUE_TYPES = {"described", "binary", "uuid", "list", "map", "array"}
#: Constructors of values without a JMS type, which aren't read.
_OPAQUE = frozenset(code for code, name in TYPE_NAMES.items() if name in _OPAQUE_TYPES)


def _known(value: object) -> object:
    """Return the value in a class that selectors know."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value) if value < EXACT_END else float(value)
    return str(value) if isinstance(value, str) else _OTHER
