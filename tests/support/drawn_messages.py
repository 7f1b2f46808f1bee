"""Messages as bytes, drawn: as clients send them, as AMQP allows them, and as AMQP forbids them."""

import struct
from collections.abc import Callable
from random import Random
from typing import TypeAlias

Maker: TypeAlias = Callable[[], bytes]


TEXTS = ("", "UA", "carrier", "hello", "Zürich", "\N{GRINNING FACE}", "a" * 255, "0", "\0")
SYMBOLS = (
    "text/plain",
    "application/json",
    "text/plain; charset=utf-8",
    "x-opt-jms-dest",
    "",
    "a/b",
)


def sized(code: int, data: bytes) -> bytes:
    """A value with its size in front: four bytes where the constructor says so."""
    return struct.pack(">BI" if code & 0x10 else ">BB", code, len(data)) + data


def compound(code: int, count: int, data: bytes) -> bytes:
    """A list or map of so many elements: a wide one where the constructor says so."""
    wide = bool(code & 0x10)
    return sized(code, struct.pack(">I" if wide else ">B", count) + data)


def string(text: str) -> bytes:
    data = text.encode()
    return sized(0xA1 if len(data) < 256 else 0xB1, data)


def symbol(text: str) -> bytes:
    return sized(0xA3, text.encode())


def section(kind: int, value: bytes) -> bytes:
    return bytes((0x00, 0x53, kind)) + value


def map_of(*pairs: tuple[bytes, bytes]) -> bytes:
    data = b"".join(key + value for key, value in pairs)
    return compound(0xC1 if len(data) < 255 else 0xD1, 2 * len(pairs), data)


def list_of(*values: bytes) -> bytes:
    data = b"".join(values)
    return compound(0xC0 if len(data) < 255 else 0xD0, len(values), data)


class Draw:
    """Draws of values and messages, by a seed."""

    def __init__(self, seed: object) -> None:
        self.dice = Random(repr(seed))

    def text(self) -> str:
        return self.dice.choice(TEXTS)

    def string(self) -> bytes:
        return sized(self.dice.choice((0xA1, 0xB1)), self.text().encode()[:255])

    def symbol(self) -> bytes:
        return sized(self.dice.choice((0xA3, 0xB3)), self.dice.choice(SYMBOLS).encode())

    def binary(self) -> bytes:
        size = self.dice.choice((0, 1, 7, 255))
        return sized(self.dice.choice((0xA0, 0xB0)), self.dice.randbytes(size))

    def fixed(self, *codes: int) -> bytes:
        code = self.dice.choice(codes)
        width = (0, 1, 2, 4, 8, 16)[(code >> 4) - 4]
        return bytes((code,)) + self.dice.choice((bytes(width), self.dice.randbytes(width)))

    def boolean(self) -> bytes:
        return self.dice.choice((b"\x41", b"\x42", b"\x56\x00", b"\x56\x01"))

    def uint(self) -> bytes:
        return self.fixed(0x43, 0x52, 0x70)

    def common(self) -> bytes:
        """A value such as application properties have."""
        numbers = (0x50, 0x60, 0x70, 0x52, 0x43, 0x44, 0x53, 0x51, 0x61, 0x71, 0x54, 0x81, 0x55)
        return self.dice.choice(
            (
                self.string,
                self.symbol,
                self.binary,
                self.boolean,
                lambda: b"\x40",
                lambda: b"\x80\x7f" + self.dice.randbytes(7),
                lambda: self.fixed(*numbers, 0x72, 0x82, 0x83),
                lambda: self.fixed(0x74, 0x84, 0x94),
            )
        )()

    def any(self, depth: int = 0) -> bytes:
        """Any value of AMQP."""
        if depth > 3 or self.dice.random() < 0.5:
            return self.dice.choice(
                (
                    self.common,
                    lambda: b"\x80" + self.dice.randbytes(8),
                    lambda: b"\x98" + self.dice.randbytes(16),
                    lambda: (
                        b"\x73" + self.dice.choice(("a", "\N{GRINNING FACE}")).encode("utf-32-be")
                    ),
                    lambda: b"\x73" + self.dice.randbytes(4),
                )
            )()
        inner = [self.any(depth + 1) for _ in range(self.dice.randrange(4))]
        return self.dice.choice(
            (
                lambda: b"\x45",
                lambda: compound(0xD0, len(inner), b"".join(inner)),
                lambda: compound(0xD1, len(inner), b"".join(inner)),
                lambda: compound(0xD1, 2, self.string() + self.any(depth + 1)),
                lambda: b"\x00" + self.symbol() + self.any(depth + 1),
                lambda: compound(0xF0, 2, b"\x71" + self.dice.randbytes(8)),
            )
        )()

    def fields(self, *makers: Maker) -> bytes:
        """A list of fields, some of them null, and maybe none of the last ones."""
        count = self.dice.randint(0, len(makers))
        if not count and self.dice.random() < 0.5:
            return b"\x45"
        values = [b"\x40" if self.dice.random() < 0.3 else maker() for maker in makers[:count]]
        return compound(
            self.dice.choice((0xC0, 0xD0)) if sum(map(len, values)) < 250 else 0xD0,
            count,
            b"".join(values),
        )

    def map(self, key: Maker, value: Maker, count_max: int) -> bytes:
        pairs = [(key(), value()) for _ in range(self.dice.randint(0, count_max))]
        data = b"".join(left + right for left, right in pairs)
        return compound(
            0xD1 if len(data) > 250 else self.dice.choice((0xC1, 0xD1)), 2 * len(pairs), data
        )

    def odd_identifier(self) -> bytes:
        return self.dice.choice((self.string, self.common, self.any))()

    def odd_key(self) -> bytes:
        return self.dice.choice((self.symbol, self.symbol, self.string, self.uint, self.any))()

    def plain_body(self) -> bytes:
        return self.dice.choice((self.string(), self.binary(), b"\x40"))

    def sections(self, *, odd: bool) -> list[bytes]:
        """A message by its sections: a common one, or with anything at any place."""
        value = self.any if odd else self.common
        identifier = self.odd_identifier if odd else self.string
        names = iter(self.dice.sample(range(100), 100))
        uint, text, time = self.uint, self.string, lambda: self.fixed(0x83)
        key = self.string if odd else lambda: string(f"{self.text()[:9]}{next(names)}")
        # The keys of annotations are symbols, or numbers that AMQP reserves.
        noted = self.odd_key if odd else lambda: symbol(f"{next(names)}")
        made = {
            0x70: lambda: self.fields(
                self.boolean, lambda: self.fixed(0x50), uint, self.boolean, uint
            ),
            0x71: lambda: self.map(noted, value, 2),
            0x72: lambda: self.map(noted, value, 3),
            0x73: lambda: self.fields(
                *(identifier, lambda: sized(0xA0, self.text().encode()[:255]), text, text, text),
                *(identifier, self.symbol, self.symbol, time, time, text, uint, text),
            ),
            0x74: lambda: self.map(key, value, 6),
            0x75: self.binary,
            0x76: lambda: compound(0xC0, 1, b"\x41"),
            0x77: self.any if odd else self.plain_body,
            0x78: lambda: self.map(self.symbol, value, 2),
        }
        body = self.dice.choice((0x75, 0x77, None) if not odd else (0x75, 0x76, 0x77, None))
        kinds = [
            kind
            for kind in made
            if kind == body or (kind not in (0x75, 0x76, 0x77) and self.dice.random() < 0.6)
        ]
        if odd and self.dice.random() < 0.3:
            kinds.insert(self.dice.randint(0, len(kinds)), self.dice.choice(sorted(made)))
        return [section(kind, made[kind]()) for kind in kinds]

    def message(self, *, odd: bool = False) -> bytes:
        return b"".join(self.sections(odd=odd))

    def spoiled(self) -> bytes:
        """A message in which something isn't as it was."""
        data = bytearray(self.message(odd=self.dice.random() < 0.3))
        match self.dice.randrange(5):
            case 0:
                return bytes(data[: self.dice.randint(0, len(data))])
            case 1:
                return self.dice.randbytes(self.dice.randint(0, 40))
            case 2:
                at = self.dice.randint(0, len(data))
                return (
                    bytes(data[:at])
                    + self.dice.randbytes(self.dice.randint(1, 9))
                    + bytes(data[at:])
                )
            case 3:
                return bytes(data) + self.dice.choice((b"\0", b"\x00\x53", self.message()))
        for _ in range(self.dice.randint(1, 3) if data else 0):
            data[self.dice.randrange(len(data))] = self.dice.choice(
                (0, 1, 0x40, 0x45, 0x53, 0xA1, 0xB1, 0xD1, 0xFF, self.dice.randrange(256))
            )
        return bytes(data)


#: As the Qpid JMS client encodes them: type and destination in the annotations.
def jms(kind: int, body: bytes, content_type: str | None = None) -> bytes:
    """A message of Qpid JMS of its kind (0 message, 1 object, 2 map, 3 bytes, 4 stream, 5 text)."""
    annotations = map_of(
        (symbol("x-opt-jms-msg-type"), bytes((0x51, kind))), (symbol("x-opt-jms-dest"), b"\x51\x01")
    )
    standard = (
        *(
            string("ID:2c6f9a2e-8a1e:1:1:1-1"),
            b"\x40",
            string("flights"),
            string("departure"),
            b"\x40",
        ),
        *(b"\x40", b"\x40" if content_type is None else symbol(content_type), b"\x40", b"\x40"),
        b"\x83" + (1_700_000_000_000).to_bytes(8),
    )
    return b"".join(
        (
            section(0x70, list_of(b"\x41")),
            section(0x72, annotations),
            section(0x73, list_of(*standard)),
            section(
                0x74, map_of((string("carrier"), string("UA")), (string("delay"), b"\x54\x07"))
            ),
            body,
        )
    )


JMS = {
    "text": jms(5, section(0x77, string("Zürich"))),
    "no text": jms(5, section(0x77, b"\x40")),
    "bytes": jms(3, section(0x75, sized(0xB0, b"\x00\xff" * 600)), "application/octet-stream"),
    "object": jms(
        1, section(0x75, sized(0xA0, b"\xac\xed")), "application/x-java-serialized-object"
    ),
    "map": jms(
        2, section(0x77, map_of((string("gate"), b"\x54\x03"), (string("code"), string("B"))))
    ),
    "stream": jms(4, section(0x76, list_of(b"\x41", string("x"), b"\x71\x00\x00\x00\x07"))),
}
