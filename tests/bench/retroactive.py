"""A subscription that begins a million messages ago and matches one in a hundred: how long its
history takes with a hint and without one, where matches lie evenly and where they lie together."""

import random
from array import array
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

from proton import Message

from distributary.jobs.client.management_client import Client, Gateway
from distributary.pipeline.management.management_messages import Entity, Verb
from distributary.pipeline.model.message import Group, PublishBatch
from distributary.pipeline.subscriptions.hint import cut, packed
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from tests.bench.bench import Bench, Measurement
from tests.bench.homes import GROUP_MESSAGES, NOON_US
from tests.bench.server import fresh_home

MESSAGES: Final = 1_000_000
BODY_BYTES: Final = 256
#: One in so many matches.
EVERY: Final = 100
#: Matches in one request.
REQUEST_MATCHES: Final = 12_000
TOPIC: Final = "flights"


def retroactive(bench: Bench) -> Measurement:
    """Seconds and the gateway's CPU for one message of the history, matching or not."""
    measurement, count = Measurement(), bench.settings.count(MESSAGES)
    shares = count // EVERY
    with fresh_home(bench.folder) as home:
        _make(home, count)
        with bench.gateway(home):
            for name, selector, matches in (
                ("even", "carrier = 'UA'", range(7, count, EVERY)),
                ("together", "day = 97", range(97 * shares, 98 * shares)),
            ):
                for hinted in (False, True):
                    word = f"{name}_{'hint' if hinted else 'alone'}"
                    seconds, cpu = _history(bench, selector, matches, count, hinted=hinted)
                    measurement.facts[f"{word}_s"] = seconds
                    measurement.facts[f"{word}_us"] = cpu / count * 1e6
            measurement.rss_mb = bench.server.rss_mb()
    return measurement


def _history(
    bench: Bench, selector: str, matches: range, count: int, *, hinted: bool
) -> tuple[float, float]:
    """Seconds until a consumer has all that matches, and the gateway's CPU seconds with all that
    making the subscription takes."""
    name, endpoint = bench.name("late"), bench.server.endpoint
    bench.server.wait_quiet()
    before = bench.server.cpu()
    with Client(Gateway(f"{endpoint.host}:{endpoint.port}")) as client:
        about = {"topic": TOPIC, "selector": selector}
        key = f"global/{name}"
        client.ask(Verb.CREATE, Entity.SUBSCRIPTION, key, {**about, "since": 0})
        for part in cut(0, count, array("q", matches), REQUEST_MATCHES) if hinted else ():
            said = {**about, "start": part.start, "stop": part.stop}
            named = packed(part.start, part.sequences)
            client.ask(Verb.HINT, Entity.SUBSCRIPTION, key, {**said, "matches": named})
    owed = len(matches)
    spec = bench.spec("drain", TOPIC, owed, subscriptions=(name,), selectors=(selector,), owed=owed)
    (drained,) = bench.load(spec)
    bench.server.wait_quiet()
    return drained.ended - drained.started, bench.server.cpu().since(before).total


@cache
def _front(carrier: str, day: int) -> bytes:
    """A message up to its body."""
    properties = {"carrier": carrier, "day": day}
    message = Message(body=bytes(BODY_BYTES), inferred=True, durable=True, properties=properties)
    return bytes(message.encode()[:-BODY_BYTES])


def _make(home: Path, count: int) -> None:
    log = TopicLog.open(Home(home).topic_log)
    groups = _groups(count)
    while part := list(islice(groups, 2)):
        log.commit([memoryview(b"".join(frame.encode(one))) for one in part])


def _groups(count: int) -> Iterator[Group]:
    chance, shares = random.Random(1), count // EVERY
    for number, first in enumerate(range(0, count, GROUP_MESSAGES), 1):
        numbers = range(first, min(first + GROUP_MESSAGES, count))
        messages = [
            _front("UA" if n % EVERY == 7 else "AA", n // shares) + chance.randbytes(BODY_BYTES)
            for n in numbers
        ]
        run = PublishBatch(
            TOPIC,
            len(messages),
            b"".join(messages),
            array("I", map(len, messages)).tobytes(),
            b"\1" * len(messages),
            b"\4" * len(messages),
            bytes(4 * len(messages)),
        )
        yield Group(number, first, NOON_US + number * 100_000, (run,), (), ())
