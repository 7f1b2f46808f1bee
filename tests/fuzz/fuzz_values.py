"""Random AMQP values as bytes: sound ones of every type, and what no encoder would write.

Everything is drawn from the dice that is given, so a seed says all.
"""

import random
import struct
from collections.abc import Callable

from gateway_codec import Encoded, encode
from gateway_fields import make
from proton import Described, symbol, timestamp, ubyte, uint, ulong, ushort

#: Bytes that mean something: constructors, codes of performatives, sections and states.
TELLING = bytes.fromhex(
    "00010210111213141516171824252627283040414243444550515355"
    "70717273757778808391a0a1a3b0b1b3c0c1d0d1e0f07f80ff"
)
#: Values that are short and wrong nearly everywhere.
ODD = [
    *(b"\x40", b"\x41", b"\x42", b"\x43", b"\x44", b"\x45", b"\x52\xff", b"\x70\xff\xff\xff\xff"),
    *(b"\x70\x7f\xff\xff\xff", b"\x70\x80\x00\x00\x00", b"\x80" + b"\xff" * 8, b"\x56\x02"),
    *(
        b"\x80\x7f" + b"\xff" * 7,
        b"\x81\x80" + b"\x00" * 7,
        b"\x55\xff",
        b"\x50\xff",
        b"\x60\xff\xff",
    ),
    *(b"\xa1\x00", b"\xa1\x03N|2", b"\xa3\x00", b"\xa0\x00", b"\xa0\x08" + bytes(8)),
    *(b"\xc1\x01\x00", b"\xc0\x01\x00", b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00"),
    *(b"\x00\x53\x27\xc0\x03\x02\x41\x41", b"\x00\x53\x24\x45", b"\x00\xa3\x01x\x40"),
    *(
        b"\x83\x7f" + b"\xff" * 7,
        b"\x82\x7f\xf8" + bytes(6),
        b"\x73\x00\x11\x00\x00",
        b"\x98" + bytes(16),
    ),
    *(b"\x74\x00\x00\x00\x01", b"\x84" + bytes(8), b"\x94" + bytes(16)),
]
#: No text: cut in a character, a lone surrogate, Latin-1, an overlong form, a null.
NO_UTF8 = [
    b"\xff\xfe\x00",
    b"\xc3",
    b"caf\xe9",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"a\x00b",
    b"\xf0\x9f\x98",
]
#: Numbers at the edges of what fields hold.
EDGES = [0, 1, 2, 127, 128, 255, 256, 2_047, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
CONDITIONS = ["amqp:internal-error", "amqp:connection:forced", "é", "x" * 200]

#: Bytes in front of a frame's body.
FRAME_HEAD_BYTES = 8

Made = Callable[[random.Random, int], bytes]


def text_bytes(dice: random.Random) -> bytes:
    """The bytes of a text, of any kind."""
    match dice.randrange(8):
        case 0:
            return dice.choice(NO_UTF8)
        case 1:
            return "é€😀".encode()[: dice.randrange(1, 10)]
        case 2:
            return b"x" * dice.choice([255, 256, 300, 5_000])
        case 3:
            return dice.choice(
                [b"$management", b"queue://fuzz", b"N|global", b"", b"/", b"%", b"topic://"]
            )
    return bytes(dice.choice(b"abcN|:/#*. ") for _ in range(dice.randrange(12)))


def variable(dice: random.Random, data: bytes, short: int) -> bytes:
    """Binary, string or symbol, in the short or the long form."""
    if len(data) < 256 and dice.random() < 0.8:
        return bytes([short, len(data)]) + data
    return bytes([short + 0x10]) + struct.pack(">I", len(data)) + data


def _text(dice: random.Random, _depth: int) -> bytes:
    return variable(dice, text_bytes(dice), dice.choice([0xA1, 0xA1, 0xA3, 0xA0]))


def _number(dice: random.Random, _depth: int) -> bytes:
    number = dice.choice(EDGES)
    kind = dice.choice([ubyte, ushort, uint, ulong, int, timestamp])
    return encode(kind(number & {ubyte: 0xFF, ushort: 0xFFFF}.get(kind, 0xFFFFFFFF)))


def _list(dice: random.Random, depth: int) -> bytes:
    return compound(dice, 0xC0, [value(dice, depth - 1) for _ in range(dice.randrange(5))])


def _map(dice: random.Random, depth: int) -> bytes:
    """A map; its keys are of any type, may be compound, and may stand there twice."""
    pairs = dice.randrange(4)
    parts = [value(dice, depth - 1) for _ in range(2 * pairs)]
    if parts and dice.random() < 0.2:
        parts.append(value(dice, 0))  # a key without a value
    if parts and dice.random() < 0.2:
        parts += parts[:2]
    return compound(dice, 0xC1, parts)


def compound(dice: random.Random, short: int, parts: list[bytes]) -> bytes:
    """A list or a map with a count and a size that are now and then not its own."""
    data, count = b"".join(parts), len(parts)
    size_off = 0
    if dice.random() < 0.05:
        count = dice.choice([0, 1, 255, count + 1, 0x7FFFFFFF, 0xFFFFFFFF])
    if dice.random() < 0.03:
        size_off = dice.choice([-1, 1, 5, 200])
    if len(data) + 1 + size_off in range(256) and count < 256 and dice.random() < 0.8:
        return bytes([short, len(data) + 1 + size_off, count]) + data
    return (
        bytes([short + 0x10]) + struct.pack(">II", max(0, len(data) + 4 + size_off), count) + data
    )


#: Constructors of an array's elements, and the bytes that each element has.
ELEMENTS = {
    0x40: 0,
    0x41: 0,
    0x43: 0,
    0x44: 0,
    0x45: 0,
    0x50: 1,
    0x56: 1,
    0x70: 4,
    0x80: 8,
    0x98: 16,
}


def array(dice: random.Random, depth: int) -> bytes:
    """An array: of nothing at all, of very many nulls, of texts, of arrays, of described values."""
    match dice.randrange(6):
        case 0:
            count = dice.choice([0, 1, 200, 65_536, 1_000_000, 0x7FFFFFFF, 0xFFFFFFFF])
            inner, data = bytes([dice.choice([0x40, 0x41, 0x43, 0x44, 0x45])]), b""
        case 1:
            code = dice.choice(list(ELEMENTS))
            count = dice.randrange(4)
            inner, data = bytes([code]), bytes(ELEMENTS[code] * count)
        case 2 if depth > 0:
            one = array(dice, depth - 1)
            count = dice.randrange(1, 3)
            inner, data = one[:1], one[1:] * count
        case 3:  # described: the descriptor is in the constructor
            count = dice.randrange(3)
            inner, data = b"\x00\xa3\x01x\x53", b"\x01" * count
        case _:
            texts = [text_bytes(dice)[:255] for _ in range(dice.randrange(4))]
            count, inner = len(texts), bytes([dice.choice([0xA1, 0xA3])])
            data = b"".join(bytes([len(one)]) + one for one in texts)
    body = inner + data
    if len(body) < 255 and count < 256 and dice.random() < 0.7:
        return bytes([0xE0, len(body) + 1, count]) + body
    return b"\xf0" + struct.pack(">II", len(body) + 4, count) + body


def _described(dice: random.Random, depth: int) -> bytes:
    """Described by a number, a name, another value; of what we know, or not."""
    known = dice.choice([0x1D, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2B, 0x30, 0x34, 0x77])
    name = dice.choice([b"amqp:accepted:list", b"amqp:error:list", b"jms-selector", b"x", b"\xff"])
    by = [
        encode(ulong(known)),
        b"\x80" + known.to_bytes(8, "big"),
        bytes([0xA3, len(name)]) + name,
        value(dice, depth - 1),
        b"\x00\x53\x24\x40",
    ]
    return b"\x00" + dice.choice(by) + value(dice, depth - 1)


def _odd(dice: random.Random, _depth: int) -> bytes:
    return dice.choice(ODD)


def _deep(dice: random.Random, _depth: int) -> bytes:
    """Lists in lists, a few or very many."""
    data = b"\x40"
    for _ in range(dice.choice([5, 30, 60, 300])):
        data = b"\xd0" + struct.pack(">II", len(data) + 4, 1) + data
    return data


def _nulls(dice: random.Random, _depth: int) -> bytes:
    """A list of arrays of nulls: few bytes that say that there are very many values."""
    one = b"\xf0\x00\x00\x00\x05" + struct.pack(">I", dice.choice([255, 60_000])) + b"\x40"
    return b"\xd0" + struct.pack(">II", len(one) * 30 + 4, 30) + one * 30


_SIMPLE: list[Made] = [_odd, _text, _number]
_NESTED: list[Made] = [_list, _map, array, _described]
_RARE: list[Made] = [_deep, _nulls]


def value(dice: random.Random, depth: int = 3) -> bytes:
    """Any value."""
    draw = dice.random()
    if depth <= 0 or draw < 0.55:
        return dice.choice(_SIMPLE)(dice, depth)
    return dice.choice(_NESTED if draw < 0.97 else _RARE)(dice, depth)


def wild(dice: random.Random) -> Encoded:
    """Any value, to be put into a field."""
    return Encoded(value(dice))


def error(dice: random.Random) -> Described:
    """An error that a peer says."""
    return make(
        "error",
        condition=symbol(dice.choice(CONDITIONS[:2])),
        description="it says so",
        info=wild(dice) if dice.random() < 0.3 else None,
    )


def damaged(frame: bytes, dice: random.Random) -> bytes:
    """A frame with a few bytes wrong; its size mostly fits, so that what follows is read."""
    body = bytearray(frame[8:])
    at = dice.randrange(len(body) + 1)
    match dice.randrange(7):
        case 0:
            body[at : at + 1] = [dice.choice(TELLING)]
        case 1:
            body[at : at + 1] = [dice.randrange(256)]
        case 2:
            body[at : at + dice.randrange(6)] = value(dice, 1)
        case 3:
            del body[at : at + dice.randint(1, 8)]
        case 4:
            body[at:at] = body[dice.randrange(len(body) + 1) :][:40]
        case 5:
            return frame[:6] + dice.randrange(4).to_bytes(2, "big") + frame[8:]
        case _:
            head = bytearray(frame[:8])
            head[dice.randrange(4, 8) if dice.random() < 0.7 else 3] = dice.choice(TELLING)
            return bytes(head) + frame[8:]
    return struct.pack(">I", 8 + len(body)) + frame[4:8] + bytes(body)


def in_other_words(frame: bytes, dice: random.Random) -> bytes:
    """The same frame, written in a way that is as right: its descriptor by eight bytes or by its
    name, its header longer."""
    code = frame[10] if len(frame) > FRAME_HEAD_BYTES + 3 else 0
    name = NAMES.get(code)
    if frame[8:10] != b"\x00\x53" or name is None or frame[5] != 0:
        return frame
    match dice.randrange(3):
        case 0:
            body = b"\x00\x80" + code.to_bytes(8, "big") + frame[11:]
        case 1:
            body = b"\x00\xa3" + bytes([len(name)]) + name + frame[11:]
        case _:
            return struct.pack(">IB", len(frame) + 4, 3) + frame[5:8] + b"more" + frame[8:]
    return struct.pack(">I", 8 + len(body)) + frame[4:8] + body


NAMES = {
    0x10 + at: f"amqp:{name}:list".encode()
    for at, name in enumerate(
        ("open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end", "close")
    )
}
