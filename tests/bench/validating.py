"""Cost of a schema that validates: CPU of the gateway and its processes for each message of a JSON
body of ten fields, with and without it; and its cost for others: a topic without a schema, before
any topic has one, beside one that is idle, and beside one that is published to.
"""

import json
import statistics
from typing import Final

from distributary.jobs.client.management_client import Client, Gateway
from distributary.pipeline.management.management_messages import Entity, Verb
from tests.bench.bench import Bench, Measurement
from tests.bench.load import Spec

#: Messages of one round; they are measured in turn, so many times. Single messages, one at a time.
MESSAGES, ROUNDS, SINGLE = 20_000, 3, 1_000
_FIELDS: Final = {
    **{f"text_{one}": {"type": "string", "maxLength": 40} for one in range(4)},
    **{f"count_{one}": {"type": "integer", "minimum": 0} for one in range(3)},
    **{f"share_{one}": {"type": "number"} for one in range(2)},
    "at": {"type": "string", "format": "date-time"},
}
SCHEMA: Final = {"type": "object", "properties": _FIELDS, "required": list(_FIELDS)}
BODY: Final = json.dumps(
    {
        **{f"text_{one}": f"a value of some length {one}" for one in range(4)},
        **{f"count_{one}": 1_000_000 + one for one in range(3)},
        **{f"share_{one}": 0.125 + one for one in range(2)},
        "at": "2026-01-01T00:00:00Z",
    }
)


def validate(bench: Bench) -> Measurement:
    measurement = Measurement()
    with bench.fresh() as server:
        free, checked = bench.name("free"), bench.name("checked")
        _cpu_us(bench, free)
        before = [_single_ms(bench, free) for _ in range(ROUNDS)]
        endpoint = server.endpoint
        with Client(Gateway(f"{endpoint.host}:{endpoint.port}")) as client:
            said = {"format": "json", "definition": json.dumps(SCHEMA), "validate": "refuse"}
            client.ask(Verb.UPDATE, Entity.SCHEMA, checked, said)
        _cpu_us(bench, checked)  # its process is started by the first messages
        costs = [(_cpu_us(bench, free), _cpu_us(bench, checked)) for _ in range(ROUNDS)]
        beside = [_single_ms(bench, free) for _ in range(ROUNDS)]
        busy = [_single_ms(bench, free, _published(bench, checked)) for _ in range(ROUNDS)]
        plain = [_single_ms(bench, free, _published(bench, free)) for _ in range(ROUNDS)]
        median = statistics.median
        measurement.facts = {
            "unchecked_us": median(cost for cost, _ in costs),
            "checked_us": median(cost for _, cost in costs),
            "checking_us": median(cost - plain for plain, cost in costs),
            "single_before_ms": median(before),
            "single_beside_ms": median(beside),
            "single_busy_ms": median(busy),
            "single_plainly_busy_ms": median(plain),
        }
        measurement.rss_mb = server.rss_mb()
    return measurement


def _published(bench: Bench, topic: str) -> Spec:
    return bench.spec("publish", topic, bench.settings.count(MESSAGES), body=BODY)


def _cpu_us(bench: Bench, topic: str) -> float:
    spec = _published(bench, topic)
    _, cpu = bench.measured(spec)
    return 1e6 * cpu.total / spec.count if cpu is not None else 0.0


def _single_ms(bench: Bench, topic: str, *others: Spec) -> float:
    """The median wait of single messages for their outcome."""
    single = bench.spec("one-at-a-time", topic, bench.settings.count(SINGLE), body=BODY)
    outcomes = bench.load(*others, single)
    return statistics.median(outcomes[-1].latencies_ms)
