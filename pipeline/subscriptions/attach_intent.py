"""The intent of an attaching link: a pure decision over the fields of its attach.

The rules are those of real JMS clients: a link's name, its source's capabilities, durability and
expiry say which subscription is meant (`pipeline.subscriptions.registry`). `ingest.net.termini`
reads the attach.
"""

from typing import TypeAlias

import msgspec

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.address import (
    SUBSCRIPTION_PREFIX,
    Destination,
    Kind,
    destination_of,
    kind_of_topic,
    said_by,
)
from distributary.pipeline.model.amqp_error import (
    INVALID_FIELD,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    AmqpError,
)
from distributary.pipeline.model.policy import NO_EXPIRY, Expiry
from distributary.pipeline.model.subscription import Definition, SubscriptionKey
from distributary.pipeline.model.topic_pattern import PatternStyle, consumed, published
from distributary.pipeline.selector.lexer import SelectorError
from distributary.pipeline.selector.parser import SelectorLimits, parse
from distributary.pipeline.subscriptions.registry import key_of_link, key_of_lookup, key_of_queue
from distributary.pipeline.subscriptions.temporary_destination import wanted_kind

#: Descriptors of filters, as JMS clients and others write them.
SELECTOR = 0x0000468C00000004
NO_LOCAL = 0x0000468C00000003
SELECTOR_DESCRIPTORS = frozenset(
    {
        SELECTOR,
        "apache.org:selector-filter:string",
        "apache.org:jms-selector-filter:string",
    }
)
NO_LOCAL_DESCRIPTORS = frozenset(
    {NO_LOCAL, "apache.org:no-local-filter:list", "apache.org:jms-no-local-filter:string"}
)
#: Why no-local is refused on global subscriptions: a message would be local to one consumer and not
#: to the next, and the log doesn't record its publisher.
NO_LOCAL_GLOBAL = "no-local is for subscriptions of a container; a global one has none"
#: Capabilities that a link offers beside its connection's: a topic's consumer, a producer.
CONSUMER_OFFERS = ("SHARED-SUBS",)
PRODUCER_OFFERS = ("DELAYED_DELIVERY",)
#: A topic's producer that desires it gets messages back that no subscription is owed. A queue,
#: which stores messages without consumers, doesn't offer it.
RELEASES = "RELEASE-UNDELIVERABLE"
#: Capabilities of a coordinator: part 4, section 4.5.1 of AMQP.
COORDINATOR_OFFERS = frozenset(
    {"amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn"}
)


class Attach(msgspec.Struct, frozen=True):
    """The fields of a link's attach that the decision needs."""

    name: str
    outgoing: bool  #: we send, the peer receives
    present: bool  #: the terminus that names our side (source if outgoing) is not null
    coordinator: bool
    dynamic: bool
    address: str | None
    durable: bool
    copy: bool  #: distribution-mode `copy`: on a queue a browser
    capabilities: frozenset[str]
    desired: frozenset[str]  #: capabilities that the peer would like the link to have
    filters: tuple[object, ...]  #: descriptors of the filters
    selectors: tuple[object, ...]  #: values of the selector filters
    expiry: Expiry = NO_EXPIRY  #: lifetime of a durable source
    answers: str = ""  #: the address of the peer's own terminus


class Produce(msgspec.Struct, frozen=True):
    """Publish messages to one topic or queue."""

    destination: Destination


class Make(msgspec.Struct, frozen=True):
    """A dynamic terminus: make a temporary destination, then attach the link to it."""

    kind: Kind


class Relay(msgspec.Struct, frozen=True):
    """Publish to the anonymous relay: each message names its destination in `properties.to`."""


class Subscribe(msgspec.Struct, frozen=True):
    """Consume from a subscription: a named one, or (key None) one of the link's own. `selector`
    is the consumer's own: of the messages that the queue is owed it gets only those that match."""

    key: SubscriptionKey | None
    definition: Definition
    selector: str | None = None
    expiry: Expiry = NO_EXPIRY  #: when a durable subscription that this link makes ends by itself


class Browse(msgspec.Struct, frozen=True):
    """Browse a queue: deliver its messages, or those that a selector matches, and leave them
    there."""

    queue: Destination
    selector: str | None = None


class BrowseSubscription(msgspec.Struct, frozen=True):
    """Browse a durable subscription by its id: deliver the messages that it is owed, or those that
    a selector matches, and leave them there."""

    key: SubscriptionKey
    selector: str | None = None


class Lookup(msgspec.Struct, frozen=True):
    """A null source: find the durable subscription, to end it (unsubscribe)."""

    key: SubscriptionKey


class Coordinate(msgspec.Struct, frozen=True):
    """Declare transactions, and discharge them."""


AttachIntent: TypeAlias = (
    Produce | Relay | Coordinate | Subscribe | Browse | BrowseSubscription | Lookup | AmqpError
)


def decide_intent(
    attach: Attach, container: str, bare: Kind, style: PatternStyle
) -> AttachIntent | Make:
    """Return the intent of an attach, or why it is refused. `bare` is the kind of an address
    without a prefix, `style` says which characters of a source's address are wildcards. Source and
    target: AMQP 1.0 part 3, section 3.5."""
    if attach.coordinator:
        return _coordinator(attach)
    if attach.dynamic:
        return _made(attach)
    if attach.outgoing and not attach.present:
        shared, global_ = "shared" in attach.desired, "global" in attach.desired
        return Lookup(key_of_lookup(container, attach.name, shared=shared, global_=global_))
    if not attach.present:
        return AmqpError(INVALID_FIELD, "a producer's target must not be null")
    if attach.address is None:
        if attach.outgoing:
            return AmqpError(INVALID_FIELD, "a consumer's source must name a topic or queue")
        return Relay()
    if attach.copy and not attach.durable and attach.address.startswith(SUBSCRIPTION_PREFIX):
        return _browsed(attach, attach.address.removeprefix(SUBSCRIPTION_PREFIX))
    return _at(attach, attach.address, container, bare, style)


def _at(
    attach: Attach, address: str, container: str, bare: Kind, style: PatternStyle
) -> AttachIntent:
    """Return the intent of an attach at this address."""
    said = said_by(attach.capabilities)
    if isinstance(said, AmqpError):
        return said
    destination = destination_of(address, said, bare)
    if isinstance(destination, AmqpError):
        return destination
    if attach.outgoing:
        meant = consumed(destination, style)
        return meant if isinstance(meant, AmqpError) else intent_for(meant, attach, container)
    return published(destination, style) or intent_for(destination, attach, container)


def _coordinator(attach: Attach) -> Coordinate | AmqpError:
    """Accept a coordinator if it has one of the offered capabilities, or none: these name the
    kinds of transactions that its controller may declare; without them they are local."""
    asked = attach.capabilities
    if asked and not asked & COORDINATOR_OFFERS:
        words = ", ".join(sorted(asked))
        return AmqpError(NOT_IMPLEMENTED, f"local transactions are served, not {words}")
    return Coordinate()


def _made(attach: Attach) -> Make | AmqpError:
    if attach.address is not None:
        return AmqpError(INVALID_FIELD, "a dynamic terminus has no address, it is given one")
    kind = wanted_kind(attach.capabilities)
    return kind if isinstance(kind, AmqpError) else Make(kind)


def intent_for(destination: Destination, attach: Attach, container: str) -> AttachIntent:
    """Return the intent of an attach at this destination."""
    return _consumer(attach, container, destination) if attach.outgoing else Produce(destination)


def _consumer(attach: Attach, container: str, destination: Destination) -> AttachIntent:
    selector = _selector(attach)
    if isinstance(selector, AmqpError):
        return selector
    no_local = any(descriptor in NO_LOCAL_DESCRIPTORS for descriptor in attach.filters)
    if destination.is_queue:
        if no_local:
            return AmqpError(INVALID_FIELD, "no-local is for topics; a queue's consumers share it")
        if attach.copy:
            return Browse(destination, selector)
        definition = Definition(destination.topic, shared=True)
        return Subscribe(key_of_queue(destination), definition, selector)
    shared = "shared" in attach.capabilities
    global_ = "global" in attach.capabilities
    if no_local and global_ and (shared or attach.durable):
        return AmqpError(INVALID_FIELD, NO_LOCAL_GLOBAL)
    key = key_of_link(
        container, attach.name, shared=shared, global_=global_, durable=attach.durable
    )
    definition = Definition(destination.topic, shared, selector, no_local)
    return Subscribe(key, definition, expiry=attach.expiry)


def _browsed(attach: Attach, id_: str) -> BrowseSubscription | AmqpError:
    """Return the intent of a browser of the subscription with this id."""
    selector = _selector(attach)
    if isinstance(selector, AmqpError):
        return selector
    try:
        key = SubscriptionKey.parse(id_)
    except InvalidRequest as error:
        return AmqpError(INVALID_FIELD, str(error))
    return BrowseSubscription(key, selector)


def _selector(attach: Attach) -> str | AmqpError | None:
    """Return the text of the only selector; None for a blank one, which selects everything."""
    match attach.selectors:
        case ():
            return None
        case (str(text),):
            return text if text.strip() else None
        case (_,):
            return AmqpError(INVALID_FIELD, "a selector filter's value must be a string")
    return AmqpError(INVALID_FIELD, "a source has one selector, not several")


def unreadable(selector: str, limits: SelectorLimits) -> AmqpError | None:
    """Return why this text is no selector; None if it is one."""
    try:
        parse(selector, limits)
    except SelectorError as error:
        return AmqpError(INVALID_FIELD, str(error))
    return None


def not_created(what: str) -> AmqpError:
    """Return the refusal of a destination that doesn't exist and whose policy forbids its creation
    on use."""
    text = f"there is no '{what}', and its use doesn't create it (create_on_use of its policy)"
    return AmqpError(NOT_FOUND, text)


def offered(
    topic: str | None, *, outgoing: bool, desired: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Return the capabilities that a link offers, by its destination's topic, if it has one. Of the
    `desired` capabilities, it offers those that it has."""
    is_topic = topic and kind_of_topic(topic) in {Kind.TOPIC, Kind.TEMPORARY_TOPIC}
    if not outgoing:
        releases = (RELEASES,) if is_topic and RELEASES in desired else ()
        return PRODUCER_OFFERS + releases
    return CONSUMER_OFFERS if is_topic else ()
