"""Large operations to which a user has the right, beside the hostile bench's witness: the end of a
large transaction, a rewind, a skip and a purge of many messages, a redrive."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from gateway_fields import make
from gateway_frames import Raw, frame_of
from gateway_jms import QUEUE, consumer, coordinator, producer, source, text_message
from gateway_transactions import value_of

from tests.bench.attack_frames import (
    arrived,
    ask,
    flow,
    opening,
    over,
    request,
    subscribed,
    talking,
    transfer,
)
from tests.bench.attacks import Attack, with_unsettled

RETIRED: Final = 20_000
MANY: Final = 500_000
LETTERS: Final = 5_000


def filled(port: int, address: str, count: int, words: tuple[str, ...] = ("topic",)) -> None:
    """So many small messages in a topic or queue."""
    small = text_message("x", address)
    with Raw(port) as raw:
        raw.send(opening("publisher"), producer(address, words))
        raw.expect("open", "begin", "attach", "flow")
        for start in range(0, count, 1_000):
            raw.send(*[transfer(n, small, settled=True) for n in range(start, start + 1_000)])
            raw.heard()


def with_retired(port: int) -> object:
    """A transaction in which 20,000 deliveries were accepted."""
    filled(port, "queue://work", RETIRED, QUEUE)
    raw = Raw(port)
    raw.socket.settimeout(60)
    raw.send(
        opening("worker"), coordinator(), consumer("w", source("queue://work", QUEUE), handle=1)
    )
    raw.expect("open", "begin", "attach", "flow", "attach")
    raw.send(transfer(0, value_of(make("declare"))))
    while (one := raw.read()).kind != "disposition":
        pass
    transaction = one["state"]["txn-id"]
    raw.send(flow(RETIRED, handle=1))
    arrived(raw, RETIRED)
    state = make("transactional-state", txn_id=transaction, outcome=make("accepted"))
    raw.send(
        frame_of("disposition", role=True, first=0, last=RETIRED - 1, settled=True, state=state)
    )
    raw.heard()
    return raw, transaction


def discharged(*, fail: bool) -> Attack:
    """The transaction's end."""

    def run(_port: int, held: object) -> None:
        assert isinstance(held, tuple)
        raw, transaction = held
        raw.send(transfer(1, value_of(make("discharge", txn_id=transaction, fail=fail))))
        while raw.read().kind != "disposition":
            pass
        raw.socket.close()

    return Attack(run, before=with_retired)


def with_many(port: int) -> object:
    """A subscription that is owed half a million messages."""
    subscribed(port, "far", "far")
    filled(port, "far", MANY)
    return None


def asked(operation: str, name: str, **attributes: object) -> Attack:
    def run(port: int, _held: object) -> None:
        ask(port, request(operation, "subscription", name, attributes))

    return Attack(run, before=with_many)


def rewound(port: int, held: object) -> None:
    """To the begin, while a consumer holds 20,000."""
    assert isinstance(held, Raw)
    ask(port, request("REWIND", "subscription", "global/many", {"to": 0}), container="operator")
    held.socket.close()


def with_letters(port: int) -> object:
    """A queue of which 5,000 messages were given up."""
    filled(port, "queue://bad", LETTERS, QUEUE)
    with talking(port, consumer("b", source("queue://bad", QUEUE))) as raw:
        raw.send(flow(LETTERS))
        arrived(raw, LETTERS)
        rejected = {"role": True, "settled": True, "state": make("rejected")}
        raw.send(frame_of("disposition", first=0, last=LETTERS - 1, **rejected))
        over(raw)
    return None


def redriven(port: int, _held: object) -> None:
    ask(port, request("REDRIVE", "queue", "bad", {}))


def left(_port: int, held: object) -> None:
    """A consumer that holds 20,000 goes away without a word."""
    assert isinstance(held, Raw)
    held.socket.close()


OPERATIONS: Mapping[str, Attack] = {
    "commit": discharged(fail=False),
    "rollback": discharged(fail=True),
    "purge": asked("PURGE", "global/far"),
    "skip": asked("SKIP", "global/far", to=MANY - 1),
    "rewind": Attack(rewound, before=with_unsettled),
    "redrive": Attack(redriven, before=with_letters),
    "leave": Attack(left, before=with_unsettled),
}
