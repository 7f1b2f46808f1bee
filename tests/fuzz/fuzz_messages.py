"""Payloads of transfers in random conversations: messages, requests to `$management`, commands to
the coordinator.

`TRANSACTION` and `TEMPORARY` stand where a value belongs that only the gateway's answers say: the
player puts in the one that came, which is as long.
"""

import random

from fuzz_values import EDGES, text_bytes, value, variable
from gateway_codec import Encoded, encode
from gateway_fields import make
from gateway_jms import text_message
from gateway_transactions import value_of
from proton import Described, symbol, timestamp, ubyte, uint, ulong

from distributary.pipeline.management.management_messages import REQUESTS, Attribute, Entity, Verb

#: Eight bytes: of the transactions that this connection has declared, the one of this number.
TRANSACTION = b"fuzztxn"
TRANSACTIONS = 3
#: As long as the name of a temporary destination: of those made so far, the one of this number.
TEMPORARY = "temp-{}://fuzz-temporary-{:017d}"
TEMPORARIES = 4

TOPICS = ["fuzz", "fuzz", "fuzz", "topic://fuzz", "other"]
QUEUES = ["queue://fuzz", "queue://fuzz", "queue://DLQ.fuzz", "queue://few"]
SUBSCRIPTIONS = ["global/N", "global/few", "fuzz-0/N", "fuzz-1/N", "x", "", "global/" + "n" * 300]
SELECTORS = [
    "a = 1",
    "a LIKE '%aaa%b'",
    "JMSPriority > 3",
    "a IS NULL OR b IN ('x', 'y')",
    "a BETWEEN 1 AND 7 AND NOT b",
    "((((a))))",
    "a LIKE",
    "b LIKE '%_%_%_c'",
    "é = 'é'",
    "a + 1e308 * 1e308 > 0",
    "a = 9223372036854775808",
]


def transaction(dice: random.Random) -> bytes:
    return TRANSACTION + bytes([dice.randrange(TRANSACTIONS)])


def temporary(dice: random.Random) -> str:
    return TEMPORARY.format(dice.choice(["queue", "topic"]), dice.randrange(TEMPORARIES))


def address(dice: random.Random) -> object:
    """An address of a link or a message."""
    draw = dice.random()
    if draw < 0.1:
        return temporary(dice)
    if draw < 0.13:
        return Encoded(variable(dice, text_bytes(dice), 0xA1))
    return dice.choice(TOPICS if draw < 0.6 else QUEUES)


def message(dice: random.Random) -> bytes:
    """A message: mostly as JMS clients send them, else put together from any sections."""
    draw = dice.random()
    if draw < 0.5:
        to = dice.choice(TOPICS + QUEUES)
        body = dice.choice(["x", 7, {"a": [1, None]}, b"y" * 5_000, None])
        ttl = dice.choice([0, 0, 0, 1, 60_000])
        return text_message(body, to, priority=dice.choice([4, 4, 0, 9]), ttl=ttl)
    parts = [_section(code, dice) for code in range(0x70, 0x79) if dice.random() < 0.4]
    if dice.random() < 0.1:
        dice.shuffle(parts)
    if dice.random() < 0.1:
        parts.append(value(dice))
    if dice.random() < 0.02:
        parts = [b"\x00\x53\x75\xa0\x00"] * 3_000
    return b"".join(parts)


def _section(code: int, dice: random.Random) -> bytes:
    """One section; now and then with any value in it."""
    if dice.random() < 0.15:
        return encode(Described(ulong(code), Encoded(value(dice))))
    match code:
        case 0x70:
            said: object = [
                dice.random() < 0.5,
                ubyte(dice.randrange(256)),
                dice.choice([None, uint(1), uint(dice.choice(EDGES))]),
                None,
                uint(dice.choice(EDGES)),
            ]
        case 0x71 | 0x72 | 0x78:
            said = {
                symbol("x-opt-delivery-time"): timestamp(dice.choice([0, 1 << 40, 1 << 62])),
                symbol("x-opt-jms-dest"): dice.choice([0, 1, 2, 3, -1]),
            }
        case 0x73:
            said = [
                dice.choice(["id", b"id", ulong(7), Encoded(value(dice, 0))]),
                b"user",
                address(dice),
                None,
                address(dice),
                Encoded(value(dice, 0)),
                None,
                None,
                timestamp(dice.choice([0, 1, 1 << 60])),
                timestamp(0),
                dice.choice(["g", "h", None]),
                uint(dice.choice(EDGES)),
                None,
            ]
        case 0x74:
            said = {"a": dice.choice([1, True, "a" * 300, 1.5]), "b": Encoded(value(dice, 1))}
        case 0x75:
            said = b"d" * dice.choice([0, 1, 300])
        case 0x76:
            said = [1, Encoded(value(dice, 2))]
        case _:
            said = Encoded(value(dice, 2))
    return encode(Described(ulong(code), said))


# Requests to the node.


def request(dice: random.Random) -> bytes:
    """A request to `$management`: mostly one that there is, with attributes that mostly fit."""
    entity = dice.choice(list(Entity))
    verb = dice.choice(list(REQUESTS[entity]))
    if dice.random() < 0.05:
        verb = dice.choice(list(Verb))
    said: dict[object, object] = {"operation": str(verb), "type": str(entity)}
    name = _name(entity, dice)
    if dice.random() < 0.95:
        said["name"] = name
    if dice.random() < 0.05:
        said[dice.choice(["operation", "type", "name", "offset"])] = Encoded(value(dice, 1))
    attributes: dict[object, object] = {}
    for attribute, kind in REQUESTS[entity].get(verb, {}).items():
        if kind.required or dice.random() < 0.5:
            attributes[attribute] = _attribute(attribute, kind, dice)
    body: object = attributes
    if dice.random() < 0.05:
        body = Encoded(value(dice))
    properties = [
        dice.choice([ulong(1), "m", b"m", Encoded(value(dice, 0))]),
        None,
        "$management",
        None,
        dice.choice(["answers", "answers", None, address(dice)]),
        None,
    ]
    sections = ((0x73, properties), (0x74, said), (0x77, body))
    return b"".join(encode(Described(ulong(code), one)) for code, one in sections)


def _name(entity: Entity, dice: random.Random) -> object:
    match entity:
        case Entity.NODE:
            return dice.choice(["self", "self", "other"])
        case Entity.SUBSCRIPTION:
            return dice.choice(SUBSCRIPTIONS)
        case Entity.QUEUE:
            return dice.choice(["fuzz", "few", "queue://fuzz", "DLQ.fuzz", ""])
    return dice.choice(["fuzz", "other", "", "topic://fuzz"])


def _attribute(name: str, kind: Attribute, dice: random.Random) -> object:
    if dice.random() < 0.08:
        return Encoded(value(dice))
    match name:
        case "selector":
            return dice.choice(SELECTORS)
        case "holder" | "topic":
            return "fuzz"
        case "sequences":
            return dice.choice(["0-9", "0", "", "5-1", "0-18446744073709551615", "1,2,3", "x" * 99])
        case "policy":
            return {dice.choice(["consumers_max", "lock_ms", "x"]): dice.choice([0, 1, -1, "x"])}
        case "to" | "since":
            return dice.choice(["start", "end", "now", 0, 7, 1 << 62, timestamp(1 << 41)])
        case "wait_ms" | "linger_ms":
            return dice.choice([0, 1, 50])
        case "force":
            return dice.random() < 0.3
    samples = {
        str: "x",
        bool: True,
        int: dice.choice([0, 1, 9, 1 << 31, (1 << 63) - 1, -1]),
        bytes: bytes(dice.randrange(40)),
        list: ["name", "topic"],
    }
    return samples.get(dice.choice(kind.types))


# Commands to the coordinator.


def command(dice: random.Random) -> bytes:
    draw = dice.random()
    if draw < 0.5:
        return value_of(make("declare"))
    if draw < 0.9:
        return value_of(make("discharge", txn_id=transaction(dice), fail=dice.random() < 0.4))
    if draw < 0.95:
        return value_of(make("discharge", txn_id=Encoded(value(dice, 0))))
    return value_of(Encoded(value(dice)))
