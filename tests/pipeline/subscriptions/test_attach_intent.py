"""Intents of links: every row of the attach tables of shared subscriptions, and every refusal."""

import pytest
from msgspec.structs import replace

from distributary.pipeline.model.address import Destination, Kind
from distributary.pipeline.model.amqp_error import INVALID_FIELD, AmqpError
from distributary.pipeline.model.subscription import Definition, SubscriptionKey
from distributary.pipeline.model.topic_pattern import PatternStyle
from distributary.pipeline.selector.parser import SelectorLimits
from distributary.pipeline.subscriptions.attach_intent import (
    NO_LOCAL,
    NO_LOCAL_GLOBAL,
    SELECTOR,
    Attach,
    AttachIntent,
    Browse,
    BrowseSubscription,
    Lookup,
    Make,
    Produce,
    Relay,
    Subscribe,
    decide_intent,
    offered,
    unreadable,
)

CONSUMER = Attach(
    name="N|2",
    outgoing=True,
    present=True,
    coordinator=False,
    dynamic=False,
    address="t",
    durable=False,
    copy=False,
    capabilities=frozenset({"topic"}),
    desired=frozenset(),
    filters=(),
    selectors=(),
)
PRODUCER = replace(CONSUMER, outgoing=False)
NOWHERE = replace(CONSUMER, present=False, address=None, capabilities=frozenset())
QUEUE = frozenset({"queue"})


def key(container: str | None, name: str, *, durable: bool) -> SubscriptionKey:
    return SubscriptionKey(container, name, durable)


#: source is set, shared, global, durable -> the subscription that link `N|2` of container c means
ROWS = [
    (True, False, False, False, None),
    (True, False, False, True, key("c", "N|2", durable=True)),
    (True, False, True, False, None),
    (True, False, True, True, key(None, "N|2", durable=True)),
    (True, True, False, False, key("c", "N", durable=False)),
    (True, True, False, True, key("c", "N", durable=True)),
    (True, True, True, False, key(None, "N", durable=False)),
    (True, True, True, True, key(None, "N", durable=True)),
    (False, False, False, False, key("c", "N|2", durable=True)),
    (False, False, True, False, key(None, "N|2", durable=True)),
    (False, True, False, False, key("c", "N", durable=True)),
    (False, True, True, False, key(None, "N", durable=True)),
]


@pytest.mark.parametrize(("present", "shared", "global_", "durable", "wanted"), ROWS)
def test_which_subscription_a_link_means(
    present: bool, shared: bool, global_: bool, durable: bool, wanted: SubscriptionKey | None
) -> None:
    """With a source its capabilities say it, without one those that the link desires."""
    words = ["shared"] * shared + ["global"] * global_
    if present:
        attach = replace(CONSUMER, capabilities=frozenset({"topic", *words}), durable=durable)
        assert intent_of(attach) == Subscribe(wanted, Definition("t", shared))
    else:
        assert intent_of(replace(NOWHERE, desired=frozenset(words))) == Lookup(wanted)


def intent_of(attach: Attach, bare: Kind = Kind.TOPIC) -> AttachIntent | Make:
    return decide_intent(attach, "c", bare, PatternStyle.ARTEMIS)


QUEUE_KEY = SubscriptionKey(None, "t", durable=True, queue=True)
OTHERS = [
    (PRODUCER, Produce(Destination(Kind.TOPIC, "t"))),
    (replace(PRODUCER, capabilities=QUEUE), Produce(Destination(Kind.QUEUE, "t"))),
    (replace(PRODUCER, address=None), Relay()),
    (replace(PRODUCER, address=None, dynamic=True), Make(Kind.TEMPORARY_TOPIC)),
    (
        replace(CONSUMER, address=None, dynamic=True, capabilities=frozenset()),
        Make(Kind.TEMPORARY_QUEUE),
    ),
    (
        replace(CONSUMER, capabilities=QUEUE),
        Subscribe(QUEUE_KEY, Definition("queue://t", shared=True)),
    ),
    # What a durable link asks of a queue, a queue has anyway; `copy` on one is a browser.
    (
        replace(CONSUMER, capabilities=QUEUE | {"shared", "global"}, durable=True),
        Subscribe(QUEUE_KEY, Definition("queue://t", shared=True)),
    ),
    (replace(CONSUMER, capabilities=QUEUE, copy=True), Browse(Destination(Kind.QUEUE, "t"))),
    # A selector on a queue is its consumer's alone, or its browser's.
    (
        replace(CONSUMER, capabilities=QUEUE, filters=(SELECTOR,), selectors=("a = 1",)),
        Subscribe(QUEUE_KEY, Definition("queue://t", shared=True), "a = 1"),
    ),
    (
        replace(CONSUMER, capabilities=QUEUE, copy=True, selectors=("a = 1",)),
        Browse(Destination(Kind.QUEUE, "t"), "a = 1"),
    ),
    # A JMS client calls everything that it browses a queue.
    (
        replace(CONSUMER, capabilities=QUEUE, copy=True, address="subscription://container/c/N"),
        BrowseSubscription(key("c", "N", durable=True)),
    ),
    (
        replace(CONSUMER, copy=True, address="subscription://global/N", selectors=("a = 1",)),
        BrowseSubscription(key(None, "N", durable=True), "a = 1"),
    ),
    (replace(CONSUMER, copy=True), Subscribe(None, Definition("t", shared=False))),
    (
        replace(CONSUMER, filters=(NO_LOCAL,)),
        Subscribe(None, Definition("t", shared=False, no_local=True)),
    ),
    # A container's shared subscription leaves out what that container publishes; a global one has
    # no container. Without sharing and durability `global` means nothing.
    (
        replace(CONSUMER, capabilities=frozenset({"topic", "shared"}), filters=(NO_LOCAL,)),
        Subscribe(key("c", "N", durable=False), Definition("t", shared=True, no_local=True)),
    ),
    (
        replace(
            CONSUMER, capabilities=frozenset({"topic", "shared", "global"}), filters=(NO_LOCAL,)
        ),
        AmqpError(INVALID_FIELD, NO_LOCAL_GLOBAL),
    ),
    (
        replace(CONSUMER, capabilities=frozenset({"topic", "global"}), filters=(NO_LOCAL,)),
        Subscribe(None, Definition("t", shared=False, no_local=True)),
    ),
    (
        replace(CONSUMER, filters=(SELECTOR,), selectors=("a = 1",)),
        Subscribe(None, Definition("t", shared=False, selector="a = 1")),
    ),
    (
        replace(CONSUMER, filters=(SELECTOR,), selectors=("  ",)),
        Subscribe(None, Definition("t", shared=False)),
    ),
    (replace(CONSUMER, filters=("unknown", None)), Subscribe(None, Definition("t", shared=False))),
]


@pytest.mark.parametrize(("attach", "wanted"), OTHERS)
def test_what_else_a_link_can_want(attach: Attach, wanted: AttachIntent | Make) -> None:
    assert intent_of(attach) == wanted


def test_a_bare_address_is_what_the_settings_say() -> None:
    bare = replace(PRODUCER, capabilities=frozenset())
    assert intent_of(bare, Kind.QUEUE) == Produce(Destination(Kind.QUEUE, "t"))


REFUSALS = [
    (replace(PRODUCER, coordinator=True), "amqp:not-implemented"),
    (replace(PRODUCER, present=False), "amqp:invalid-field"),
    (replace(CONSUMER, address=None), "amqp:invalid-field"),
    (replace(CONSUMER, dynamic=True), "amqp:invalid-field"),
    (replace(CONSUMER, copy=True, address="subscription://N"), "amqp:invalid-field"),
    (replace(CONSUMER, address="subscription://global/N"), "amqp:invalid-field"),
    (
        replace(CONSUMER, copy=True, durable=True, address="subscription://global/N"),
        "amqp:invalid-field",
    ),
    (replace(PRODUCER, address="subscription://global/N"), "amqp:invalid-field"),
    (replace(PRODUCER, capabilities=QUEUE | {"topic"}), "amqp:invalid-field"),
    (replace(CONSUMER, address="$catalog"), "amqp:not-found"),
    (replace(CONSUMER, capabilities=QUEUE, filters=(NO_LOCAL,)), "amqp:invalid-field"),
    (
        replace(CONSUMER, capabilities=frozenset({"shared", "global"}), filters=(NO_LOCAL,)),
        "amqp:invalid-field",
    ),
    (
        replace(CONSUMER, capabilities=frozenset({"global"}), durable=True, filters=(NO_LOCAL,)),
        "amqp:invalid-field",
    ),
    (replace(CONSUMER, selectors=(1,)), "amqp:invalid-field"),
    (replace(CONSUMER, selectors=("a = 1", "b = 2")), "amqp:invalid-field"),
]


@pytest.mark.parametrize(("attach", "condition"), REFUSALS)
def test_what_can_not_be_had_is_refused_with_a_sentence(attach: Attach, condition: str) -> None:
    amqp_error = intent_of(attach)
    assert isinstance(amqp_error, AmqpError)
    assert amqp_error.condition == condition
    assert " " in amqp_error.description


def test_a_selector_that_is_none_is_refused_with_its_place() -> None:
    amqp_error = unreadable("a = ", SelectorLimits(100, 10, 2))
    assert amqp_error is not None
    assert amqp_error.condition == "amqp:invalid-field"
    assert "line 1" in amqp_error.description
    assert unreadable("a = 1", SelectorLimits(100, 10, 2)) is None
    often = unreadable("a LIKE '%x__%'", SelectorLimits(100, 10, 2))
    assert often is not None
    assert "3 times over a text, 2 times at most" in often.description


@pytest.mark.parametrize(
    ("topic", "outgoing", "words"),
    [
        ("t", True, ("SHARED-SUBS",)),
        ("temp-topic://1", True, ("SHARED-SUBS",)),
        ("queue://t", True, ()),
        ("temp-queue://1", True, ()),
        ("t", False, ("DELAYED_DELIVERY",)),
        ("queue://t", False, ("DELAYED_DELIVERY",)),
        (None, False, ("DELAYED_DELIVERY",)),
    ],
)
def test_what_a_link_is_offered(topic: str | None, outgoing: bool, words: tuple[str, ...]) -> None:
    """Subscriptions of topics can be shared; a queue's consumers share it anyway. What is sent
    anywhere may be delayed."""
    assert offered(topic, outgoing=outgoing) == words
