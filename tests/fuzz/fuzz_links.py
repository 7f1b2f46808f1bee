"""The attaches of random conversations: every kind of link that the gateway serves."""

import random
from dataclasses import dataclass

from fuzz_messages import QUEUES, SELECTORS, TOPICS, address, temporary
from fuzz_values import text_bytes, variable, wild
from gateway_codec import Encoded
from gateway_fields import make
from gateway_jms import GLOBAL, OUTCOMES, SHARED, no_local, selector
from proton import Described, symbol

#: Names of links: of subscriptions, as clients write them, and of others.
NAMES = [
    "N",
    "N",
    "N|2",
    "N|global",
    "N|global",
    "N|volatile1",
    "N|global-volatile1",
    "few|global",
    "x",
    "|",
    "",
]


@dataclass
class Wanted:
    """A link that the peer has attached: whether it sends on it, and to what."""

    sends: bool
    kind: str


def attach(dice: random.Random) -> tuple[Wanted, dict[str, object]]:
    """A link of any kind, and the fields of its attach but the handle."""
    make_one = dice.choices(
        [_consumer, _producer, _maker, _coordinator, _manager, _answers, _lookup],
        [9, 9, 2, 2, 2, 2, 1],
    )[0]
    wanted, fields = make_one(dice)
    fields.setdefault("role", not wanted.sends)
    fields.setdefault("name", _name(dice))
    fields.setdefault("snd_settle_mode", dice.choice([0, 0, 1, 2]))
    fields.setdefault("rcv_settle_mode", dice.choice([0, 0, 0, 1]))
    if wanted.sends:
        fields["initial_delivery_count"] = dice.choice([0, 0, 0xFFFFFFFF])
    if dice.random() < 0.04:
        fields["properties"] = {symbol("p"): wild(dice)} if dice.random() < 0.5 else wild(dice)
    if dice.random() < 0.03:
        fields["unsettled"] = {b"tag": make("accepted")} if dice.random() < 0.5 else wild(dice)
    if dice.random() < 0.05:
        fields["desired_capabilities"] = dice.choice([["shared", "global"], ["é"], wild(dice)])
    if dice.random() < 0.05:
        fields["max_message_size"] = dice.choice([0, 1, 100, 1 << 40])
    return wanted, fields


def _name(dice: random.Random) -> object:
    draw = dice.random()
    if draw < 0.02:
        return Encoded(variable(dice, text_bytes(dice), 0xA1))
    return dice.choice(NAMES) if draw < 0.6 else f"link-{dice.randrange(1_000)}"


def _consumer(dice: random.Random) -> tuple[Wanted, dict[str, object]]:
    to = address(dice)
    durable, browser = dice.random() < 0.35, dice.random() < 0.15
    queue = to in QUEUES
    words: list[object] = dice.choice(
        [["queue"]] if queue else [["topic"], ["topic"], list(SHARED), list(GLOBAL)]
    )
    dynamic = dice.random() < 0.05
    filters = dice.choice(
        [None, None, None, selector(dice.choice(SELECTORS)), no_local(), {symbol("x"): wild(dice)}]
    )
    source = make(
        "source",
        address=None if dynamic else to,
        durable=2 if durable else 0,
        dynamic=dynamic or None,
        expiry_policy="never" if durable else dice.choice(["link-detach", "session-end"]),
        dynamic_node_properties={symbol("lifetime-policy"): make("delete-on-close")}
        if dynamic
        else None,
        distribution_mode="copy" if browser or durable else dice.choice([None, "move"]),
        filter=filters,
        default_outcome=_outcome(dice),
        outcomes=OUTCOMES,
        capabilities=["temporary-queue"] if dynamic else words,
    )
    fields = {
        "source": _spoilt(source, dice),
        "target": make("target", address=dice.choice([None, "t"])),
    }
    return Wanted(False, "consumer"), fields


def _outcome(dice: random.Random) -> object:
    if dice.random() < 0.05:
        return wild(dice)
    return dice.choice(
        [None, make("modified", delivery_failed=True), make("released"), make("accepted")]
    )


def _producer(dice: random.Random) -> tuple[Wanted, dict[str, object]]:
    """To a topic, a queue, a temporary destination; without an address the relay."""
    to = None if dice.random() < 0.25 else address(dice)
    words = (
        ["queue"] if to in QUEUES else dice.choice([["topic"], [], ["é"]]) if to in TOPICS else []
    )
    target = make("target", address=to, capabilities=words or None)
    fields = {
        "source": make("source", address="s", outcomes=OUTCOMES),
        "target": _spoilt(target, dice),
    }
    return Wanted(True, "producer"), fields


def _maker(dice: random.Random) -> tuple[Wanted, dict[str, object]]:
    """Makes a temporary destination; a part of them are receivers' own."""
    target = make(
        "target",
        durable=0,
        expiry_policy="link-detach",
        dynamic=True,
        dynamic_node_properties={symbol("lifetime-policy"): make("delete-on-close")},
        capabilities=[dice.choice(["temporary-topic", "temporary-queue", "x"])],
    )
    return Wanted(True, "producer"), {"source": make("source"), "target": _spoilt(target, dice)}


def _coordinator(dice: random.Random) -> tuple[Wanted, dict[str, object]]:
    target = make("coordinator", capabilities=["amqp:local-transactions"])
    fields = {"source": make("source", outcomes=OUTCOMES), "target": _spoilt(target, dice)}
    return Wanted(True, "coordinator"), fields


def _manager(_dice: random.Random) -> tuple[Wanted, dict[str, object]]:
    return Wanted(True, "management"), {
        "source": make("source"),
        "target": make("target", address="$management"),
    }


def _answers(dice: random.Random) -> tuple[Wanted, dict[str, object]]:
    """A receiver of the node's answers."""
    target = make("target", address=dice.choice(["answers", "answers", None, temporary(dice)]))
    return Wanted(False, "answers"), {
        "source": make("source", address="$management"),
        "target": _spoilt(target, dice),
    }


def _lookup(dice: random.Random) -> tuple[Wanted, dict[str, object]]:
    """The attach of an unsubscribe: a receiver without a source."""
    return Wanted(False, "lookup"), {
        "source": None,
        "target": make("target"),
        "name": dice.choice(NAMES),
    }


def _spoilt(terminus: Described, dice: random.Random) -> object:
    """The terminus, now and then with any value in one of its fields."""
    if dice.random() > 0.04 or not terminus.value:
        return wild(dice) if dice.random() < 0.005 else terminus
    fields = list(terminus.value)
    fields[dice.randrange(len(fields))] = wild(dice)
    return Described(terminus.descriptor, fields)
