"""Small groups for the tests of the storage room."""

import os
from array import array
from collections.abc import Sequence

from distributary.pipeline.model.message import Group, PublishBatch, Settlement, SubscriptionRecord
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import Definition, SubscriptionEvent, SubscriptionKey
from distributary.pipeline.tables.journal import frame

#: 2026-11-21 12:00 UTC, in microseconds.
NOON = 1_795_262_400_000_000
DAY_US = 86_400_000_000


def run(
    topic: str,
    bodies: Sequence[bytes],
    *,
    ttl: int = 0,
    priority: Sequence[int] = (),
    expires_at: Sequence[int] = (),
    deliver_at: Sequence[int] = (),
) -> PublishBatch:
    """A run with these bodies, all durable, of priority 4; what has a ttl arrived at noon."""
    if ttl and not expires_at:
        expires_at = [NOON + 1_000 * ttl] * len(bodies)
    count = len(bodies)
    return PublishBatch(
        topic,
        count,
        b"".join(bodies),
        array("I", map(len, bodies)).tobytes(),
        b"\1" * count,
        bytes(priority) or b"\4" * count,
        array("I", [ttl] * count).tobytes(),
        array("q", expires_at).tobytes(),
        array("q", deliver_at).tobytes(),
    )


def group(
    number: int,
    first: int = 0,
    *runs: PublishBatch,
    at: int = NOON,
    settlements: Sequence[Settlement] = (),
    subscriptions: Sequence[SubscriptionRecord] = (),
) -> Group:
    return Group(number, first, at, runs, tuple(settlements), tuple(subscriptions))


def bodies(count: int, size: int) -> list[bytes]:
    data = os.urandom(count * size)
    return [data[i * size : (i + 1) * size] for i in range(count)]


def framed(one: Group) -> memoryview:
    """The group's frame as the journal would give it back, checksums aside."""
    return memoryview(b"".join(frame.encode(one)))


KEY = SubscriptionKey(None, "dispatchers", durable=True)


def settled(
    *runs: range,
    subscription: str = KEY.id,
    floor: int = 0,
    outcome: Outcome = Outcome.ACCEPTED,
    final: bool = True,
    topic: str = "orders",
    delivery_count: int = 0,
) -> Settlement:
    return Settlement(
        subscription,
        topic,
        "worker-1/a",
        outcome,
        final,
        delivery_count,
        NOON,
        NOON + 5,
        floor,
        runs,
    )


def event(
    what: SubscriptionEvent,
    floor: int,
    *,
    key: SubscriptionKey = KEY,
    topic: str = "orders",
    selector: str | None = None,
    paused: bool = False,
    policy: str = "",
) -> SubscriptionRecord:
    definition = Definition(topic, shared=True, selector=selector)
    return SubscriptionRecord(what, key, definition, floor, paused, policy)
