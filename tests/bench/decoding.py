"""Cost of decoding a message in this process: in columns, and one by one beside it."""

import random
import time
from collections.abc import Callable
from datetime import UTC, date, datetime
from itertools import islice
from typing import Any

import pyarrow as pa
from proton import Message, byte, symbol

from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.tables.arrow.topic_log_schema import ROWS
from distributary.pipeline.transforms.decoding.one_by_one import decoded_one_by_one
from distributary.pipeline.transforms.materialize.messages import decoded_bodies, decoded_columns
from distributary.pipeline.transforms.typed.topic_tables import SchemaEvent
from distributary.pipeline.transforms.typed.typed_rows import TypedRows
from examples.demo.flights import Encoder, rows
from tests.bench.bench import Bench, Measurement
from tests.bench.materializing import ORDER, TOPIC, order, order_schema

#: Messages in an Arrow batch, as conf/spark.conf has it.
COUNT = 2_000
ROUNDS, ROUNDS_ONE_BY_ONE = 20, 3


def _flights() -> list[bytes]:
    """The demo's: nineteen application properties, and a line of text."""
    encoder = Encoder()
    return [encoder.message(number, row) for number, row in islice(enumerate(rows()), COUNT)]


def _kilobytes() -> list[bytes]:
    """Bytes of 1 KiB with two application properties."""
    return [_message(nth, b"x" * 900, kind=3, inferred=True) for nth in range(COUNT)]


def _texts() -> list[bytes]:
    """Short texts as a JMS client sends them, some beyond ASCII, with two properties."""
    return [
        _message(
            nth, f"gate {nth} {'Zürich' if nth % 10 == 0 else 'Newark'}", kind=5, inferred=False
        )
        for nth in range(COUNT)
    ]


def _message(nth: int, body: str | bytes, *, kind: int, inferred: bool) -> bytes:
    message = Message(body=body, durable=True, id=f"ID:flights-{nth}", address="topic://flights")
    message.inferred, message.creation_time = inferred, 1_700_000_000.0
    message.annotations = {symbol("x-opt-jms-msg-type"): byte(kind)}
    message.properties = {"carrier": "UA", "delay": nth}
    return bytes(message.encode())


def _cost(
    decode: Callable[["pa.Array[Any]"], object], messages: "pa.Array[Any]", rounds: int
) -> float:
    """Microseconds of CPU a message; the best of the rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        decode(messages)
        best = min(best, time.process_time() - began)
    return best / COUNT * 1e6


def decode(_bench: Bench) -> Measurement:
    """All of it in this process, one thread, without Spark."""
    measurement = Measurement()
    for name, made in (("flights", _flights), ("kib", _kilobytes), ("texts", _texts)):
        messages: pa.Array[Any] = pa.array(made(), pa.binary())
        measurement.facts[f"{name}_us"] = _cost(decoded_columns, messages, ROUNDS)
        measurement.facts[f"{name}_one_by_one_us"] = _cost(
            decoded_one_by_one, messages, ROUNDS_ONE_BY_ONE
        )
    measurement.facts |= _typed()
    return measurement


def _typed() -> dict[str, float]:
    """Orders of ten fields in JSON as rows of their typed table, when they are decoded already; and
    by a schema with one word more, which is read one by one."""
    chance = random.Random(8)
    bodies = [order(nth, chance) for nth in range(COUNT)]
    log = pa.RecordBatch.from_pylist(
        [
            {
                "sequence": nth,
                "topic": TOPIC,
                "day": date(2026, 11, 25),
                "published_at": datetime(2026, 11, 25, tzinfo=UTC),
                "durable": True,
                "priority": 4,
                "group": 1,
                "message": Message(body=body, inferred=True).encode(),
            }
            for nth, body in enumerate(bodies)
        ],
        schema=pa.schema([ROWS["message"].field(name) for name in (*COPIED, "message")]),
    )
    decoded = decoded_bodies(log)
    found = {}
    for name, definition in (("typed", ORDER), ("typed_one_by_one", ORDER | {"minProperties": 1})):
        typing = TypedRows([SchemaEvent.of(TOPIC, 0, order_schema(definition))])
        best = float("inf")
        for _ in range(ROUNDS_ONE_BY_ONE):
            began = time.process_time()
            list(typing.made(log, decoded))
            best = min(best, time.process_time() - began)
        found[f"{name}_us"] = best / COUNT * 1e6
    return found
