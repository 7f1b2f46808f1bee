"""Cost of selectors for a message: one, ten different, ten equal, and ten that take turns."""

import time
from array import array

from proton import Message, symbol

from distributary.ingest.native.batch_reader import BatchReader
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.selector.matching import Selections
from tests.bench.bench import Bench, Measurement

COUNT = 2_000
ROUNDS = 10
#: Work of one subscription in one pass, as the delivery service allows.
PASS_EVALUATIONS = 1_000

ONE = ("carrier = 'UA' AND delay > 5",)
TEN = tuple(f"carrier = 'U{chr(ord('A') + n)}' AND delay > {n}" for n in range(10))
EQUAL = ONE * 10


def _message() -> bytes:
    """A flight of 1 KiB as a JMS client sends it, with two application properties."""
    message = Message(body=b"x" * 900, durable=True, id="ID:flights-1", address="topic://flights")
    message.inferred, message.creation_time = True, 1_700_000_000.0
    message.annotations = {symbol("x-opt-jms-msg-type"): 3}
    message.properties = {"carrier": "UA", "delay": 17}
    return bytes(message.encode())


def _cost(texts: tuple[str, ...], width: int) -> float:
    """Microseconds of CPU a message until all selectors know what they match, `width` messages at
    a time for each in turn; the best of the rounds."""
    data = _message()
    offsets = array("i", range(0, len(data) * (COUNT + 1), len(data))).tobytes()
    selections, claims = (
        Selections(BatchReader),
        [Definition("flights", True, text) for text in texts],
    )
    for definition in claims:
        selections.join(definition)
    best = float("inf")
    for nth in range(ROUNDS):
        batch = RecordBatch(nth * COUNT, COUNT, data * COUNT, offsets)
        began = time.process_time()
        places = [batch.first] * len(claims)
        for stop in range(batch.first + width, batch.stop + width, width):
            for which, definition in enumerate(claims):
                while places[which] < min(stop, batch.stop):
                    found = selections.matches(
                        definition, batch, places[which], room=COUNT, work_max=PASS_EVALUATIONS
                    )
                    places[which] = found.stop
        best = min(best, time.process_time() - began)
    return best / COUNT * 1e6


def selectors(_bench: Bench) -> Measurement:
    """All of it in this process: reading and evaluating, without the wire."""
    measurement = Measurement()
    measurement.facts["one_us"] = _cost(ONE, COUNT)
    measurement.facts["ten_us"] = _cost(TEN, COUNT)
    measurement.facts["equal_us"] = _cost(EQUAL, COUNT)
    measurement.facts["turns_us"] = _cost(TEN, 40)
    return measurement
