"""Every number of AMQP 1.0's encoding, once: constructors, widths, descriptors, sections.

`ingest/native/build_pump.py` generates C's constants from this file. No other file contains one of
these numbers, neither in Python nor in C; `tests/pipeline/codec/test_amqp_codes.py` checks that.

Constructors and their names: AMQP 1.0 part 1, section 1.6. Performatives: part 2, section 2.7.
Sections, outcomes, termini: part 3. Transactions: part 4. SASL: part 5.
"""

from enum import IntEnum
from typing import Final

# Constructors: the byte in front of a value. A number at a name's end is the width of the value, or
# of its size, in bits.
DESCRIBED: Final = 0x00
NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
BOOLEAN: Final = 0x56
UBYTE: Final = 0x50
USHORT: Final = 0x60
UINT: Final = 0x70
SMALLUINT: Final = 0x52
UINT0: Final = 0x43
ULONG: Final = 0x80
SMALLULONG: Final = 0x53
ULONG0: Final = 0x44
BYTE: Final = 0x51
SHORT: Final = 0x61
INT: Final = 0x71
SMALLINT: Final = 0x54
LONG: Final = 0x81
SMALLLONG: Final = 0x55
FLOAT: Final = 0x72
DOUBLE: Final = 0x82
DECIMAL32: Final = 0x74
DECIMAL64: Final = 0x84
DECIMAL128: Final = 0x94
CHAR: Final = 0x73
TIMESTAMP: Final = 0x83
UUID: Final = 0x98
VBIN8: Final = 0xA0
VBIN32: Final = 0xB0
STR8: Final = 0xA1
STR32: Final = 0xB1
SYM8: Final = 0xA3
SYM32: Final = 0xB3
LIST0: Final = 0x45
LIST8: Final = 0xC0
LIST32: Final = 0xD0
MAP8: Final = 0xC1
MAP32: Final = 0xD1
ARRAY8: Final = 0xE0
ARRAY32: Final = 0xF0

#: The constructors above by their names.
CONSTRUCTORS: Final = {name: code for name, code in globals().items() if isinstance(code, int)}

#: Pairs of constructors that differ only in their width: the narrow one, the wide one.
BINARIES: Final = (VBIN8, VBIN32)
STRINGS: Final = (STR8, STR32)
SYMBOLS: Final = (SYM8, SYM32)
LISTS: Final = (LIST8, LIST32)
MAPS: Final = (MAP8, MAP32)

#: Constructor -> the type's name in the specification.
TYPE_NAMES: Final[dict[int, str]] = {
    DESCRIBED: "described",
    NULL: "null",
    **dict.fromkeys((TRUE, FALSE, BOOLEAN), "boolean"),
    UBYTE: "ubyte",
    USHORT: "ushort",
    **dict.fromkeys((UINT0, SMALLUINT, UINT), "uint"),
    **dict.fromkeys((ULONG0, SMALLULONG, ULONG), "ulong"),
    BYTE: "byte",
    SHORT: "short",
    **dict.fromkeys((SMALLINT, INT), "int"),
    **dict.fromkeys((SMALLLONG, LONG), "long"),
    FLOAT: "float",
    DOUBLE: "double",
    DECIMAL32: "decimal32",
    DECIMAL64: "decimal64",
    DECIMAL128: "decimal128",
    CHAR: "char",
    TIMESTAMP: "timestamp",
    UUID: "uuid",
    **dict.fromkeys(BINARIES, "binary"),
    **dict.fromkeys(STRINGS, "string"),
    **dict.fromkeys(SYMBOLS, "symbol"),
    **dict.fromkeys((LIST0, *LISTS), "list"),
    **dict.fromkeys(MAPS, "map"),
    **dict.fromkeys((ARRAY8, ARRAY32), "array"),
}

#: Constructor -> format of the number behind it, for `struct` and numpy.
NUMBER_FORMS: Final[dict[int, str]] = {
    UBYTE: ">B",
    SMALLUINT: ">B",
    SMALLULONG: ">B",
    USHORT: ">H",
    UINT: ">I",
    ULONG: ">Q",
    BYTE: ">b",
    SMALLINT: ">b",
    SMALLLONG: ">b",
    SHORT: ">h",
    INT: ">i",
    LONG: ">q",
    TIMESTAMP: ">q",
    FLOAT: ">f",
    DOUBLE: ">d",
}

#: The high half of a constructor gives its value's width, even for unknown types: the bytes of the
#: value, or those of the size (and of a container's count) in front of it.
VALUE_WIDTHS: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
SIZE_WIDTHS: Final = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}
#: High halves from these on are those of containers, of arrays.
CONTAINERS: Final = 0xC
ARRAYS: Final = 0xE

#: By constructor: bytes of a value of fixed width, its constructor included; 0 for the others.
FIXED_BYTES: Final = bytes(
    1 + VALUE_WIDTHS[code >> 4] if code >> 4 in VALUE_WIDTHS else 0 for code in range(256)
)
#: By constructor: bytes of the size in front of a value; 0 where there is none.
SIZE_BYTES: Final = bytes(SIZE_WIDTHS.get(code >> 4, 0) for code in range(256))


class Descriptor(IntEnum):
    """Descriptors of lists other than the sections of messages."""

    OPEN = 0x10
    BEGIN = 0x11
    ATTACH = 0x12
    FLOW = 0x13
    TRANSFER = 0x14
    DISPOSITION = 0x15
    DETACH = 0x16
    END = 0x17
    CLOSE = 0x18
    ERROR = 0x1D
    RECEIVED = 0x23
    ACCEPTED = 0x24
    REJECTED = 0x25
    RELEASED = 0x26
    MODIFIED = 0x27
    SOURCE = 0x28
    TARGET = 0x29
    DELETE_ON_CLOSE = 0x2B
    COORDINATOR = 0x30
    DECLARE = 0x31
    DISCHARGE = 0x32
    DECLARED = 0x33
    TRANSACTIONAL_STATE = 0x34
    SASL_MECHANISMS = 0x40
    SASL_INIT = 0x41
    SASL_CHALLENGE = 0x42
    SASL_RESPONSE = 0x43
    SASL_OUTCOME = 0x44

    @property
    def symbol(self) -> str:
        """The symbol that may stand for the number."""
        return f"amqp:{self.name.lower().replace('_', '-')}:list"


class Kind(IntEnum):
    """The sections of a message by their descriptors, in the order in which they may stand."""

    HEADER = 0x70
    DELIVERY_ANNOTATIONS = 0x71
    MESSAGE_ANNOTATIONS = 0x72
    PROPERTIES = 0x73
    APPLICATION_PROPERTIES = 0x74
    DATA = 0x75
    SEQUENCE = 0x76
    VALUE = 0x77
    FOOTER = 0x78


#: Symbolic descriptors of sections: allowed, though no known client sends them.
SECTION_SYMBOLS: Final[dict[str, Kind]] = {
    "amqp:header:list": Kind.HEADER,
    "amqp:delivery-annotations:map": Kind.DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": Kind.MESSAGE_ANNOTATIONS,
    "amqp:properties:list": Kind.PROPERTIES,
    "amqp:application-properties:map": Kind.APPLICATION_PROPERTIES,
    "amqp:data:binary": Kind.DATA,
    "amqp:amqp-sequence:list": Kind.SEQUENCE,
    "amqp:amqp-value:*": Kind.VALUE,
    "amqp:footer:map": Kind.FOOTER,
}


def descriptor(code: int) -> bytes:
    """Return the first bytes of a described value, with the descriptor as a small ulong."""
    return bytes((DESCRIBED, SMALLULONG, code))
