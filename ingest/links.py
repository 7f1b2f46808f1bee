"""What an attaching link wants: the remote terminus read once, then a pure decision.

`read` is the only function here that knows Proton; `wish` is a function of values. The rules are
those of real JMS clients: a link's name, its source's capabilities, durability and expiry say
which subscription is meant (`pipeline.registry`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from proton import Data, Described, Terminus, symbol, ulong
from proton import Link as ProtonLink

from ingest.link import BROKEN_VALUES, BrokenFrame, copy_plainly
from ingest.native import values_in
from pipeline.address import Destination, Kind, destination_of, kind_of_topic, said_by
from pipeline.refusal import INVALID_FIELD, NOT_IMPLEMENTED, Refusal
from pipeline.registry import key_of_link, key_of_lookup, key_of_queue
from pipeline.selector.lexer import SelectorError
from pipeline.selector.parser import parse
from pipeline.subscription import Definition, SubscriptionKey
from pipeline.temporary import DELETE_ON_CLOSE, wanted_kind

_SELECTOR = 0x0000468C00000004
_NO_LOCAL = 0x0000468C00000003
SELECTOR_DESCRIPTORS = frozenset(
    {
        _SELECTOR,
        "apache.org:selector-filter:string",
        "apache.org:jms-selector-filter:string",
    }
)
NO_LOCAL_DESCRIPTORS = frozenset(
    {_NO_LOCAL, "apache.org:no-local-filter:list", "apache.org:jms-no-local-filter:string"}
)


#: What may become of a delivery (AMQP 1.0 part 3, section 3.4).
OUTCOMES = (
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
)
#: What a link can do beyond what its connection says: that of a topic's consumer, of a producer.
#: DELAYED_DELIVERY is one of the latter when it is served.
CONSUMER_OFFERS = ("SHARED-SUBS",)
PRODUCER_OFFERS: tuple[str, ...] = ()
#: Values in one field of an attach, those inside of others too: an array of 65,535 nulls is ten
#: bytes long, and reading it would hold everybody up for a tenth of a second.
FIELD_VALUES_MAX = 256


@dataclass(frozen=True, slots=True)
class Attach:
    """A link's attach as far as the decision needs it."""

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
    selectors: tuple[object, ...]  #: what the filters that are selectors say


@dataclass(frozen=True, slots=True)
class Produce:
    """Messages for one topic or queue."""

    destination: Destination


@dataclass(frozen=True, slots=True)
class Make:
    """A dynamic terminus: make a temporary destination, then do with it what the link is for."""

    kind: Kind


@dataclass(frozen=True, slots=True)
class Relay:
    """The anonymous relay: each message says in `properties.to` where it goes."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Consume from a subscription: a named one, or (key None) one of the link's own."""

    key: SubscriptionKey | None
    definition: Definition


@dataclass(frozen=True, slots=True)
class Browse:
    """Look at what a queue has, and leave it there."""

    queue: Destination


@dataclass(frozen=True, slots=True)
class Lookup:
    """A null source: find the durable subscription, to end it (unsubscribe)."""

    key: SubscriptionKey


Wish: TypeAlias = Produce | Relay | Subscribe | Browse | Lookup | Refusal


def read(link: ProtonLink, desired: frozenset[str]) -> Attach:
    """The attach of a link whose peer has just opened it. Raises BrokenFrame."""
    try:
        return _read(link, desired)
    except BROKEN_VALUES as error:
        raise BrokenFrame(f"attach of link '{link.name}': {error}") from error


def _read(link: ProtonLink, desired: frozenset[str]) -> Attach:
    outgoing = bool(link.is_sender)
    _words(link.remote_source.outcomes)
    terminus = link.remote_source if outgoing else link.remote_target
    kind = terminus.type
    return Attach(
        name=link.name,
        outgoing=outgoing,
        present=kind in (Terminus.SOURCE, Terminus.TARGET),
        coordinator=kind == Terminus.COORDINATOR,
        dynamic=bool(terminus.dynamic),
        address=terminus.address,
        durable=terminus.expiry_policy == Terminus.EXPIRE_NEVER
        or terminus.durability != Terminus.NONDURABLE,
        copy=outgoing and terminus.distribution_mode == Terminus.DIST_MODE_COPY,
        capabilities=_symbols(terminus.capabilities),
        desired=desired,
        filters=_filters(terminus.filter) if outgoing else (),
        selectors=_selectors(terminus.filter) if outgoing else (),
    )


def _symbols(data: object) -> frozenset[str]:
    return frozenset(_words(data))


def _words(data: object) -> list[str]:
    """The words of a field of symbols: one, an array, or, as Proton's SymbolList writes it, a list;
    no word is left out unseen. Raises ValueError for anything else."""
    value = _value(data)
    if value is None:
        return []
    elements = value if isinstance(value, list) else getattr(value, "elements", [value])
    if not all(isinstance(word, str) for word in elements):
        raise ValueError("a capability or an outcome is a symbol")
    return list(map(str, elements))


def _filters(data: object) -> tuple[object, ...]:
    value = _value(data)
    if not isinstance(value, dict):
        return ()
    descriptors = (v.descriptor if isinstance(v, Described) else None for v in value.values())
    # One of another kind can't be compared with those that we know; it is unknown like any other.
    return tuple(d if isinstance(d, int | str) else None for d in descriptors)


def _value(data: object) -> object:
    if values_in(data._data) > FIELD_VALUES_MAX:  # type: ignore[attr-defined]
        raise ValueError(f"a field holds more than {FIELD_VALUES_MAX} values")
    data.rewind()  # type: ignore[attr-defined]
    return data.get_object() if data.next() else None  # type: ignore[attr-defined]


def wish(attach: Attach, container: str, bare: Kind) -> Wish | Make:
    """What the link wants, or why it can't be had. `bare` is the kind of an address that doesn't
    say its own."""
    if attach.coordinator:
        return Refusal(NOT_IMPLEMENTED, "transactions are not served yet")
    if attach.dynamic:
        return _made(attach)
    if attach.outgoing and not attach.present:
        shared, global_ = "shared" in attach.desired, "global" in attach.desired
        return Lookup(key_of_lookup(container, attach.name, shared=shared, global_=global_))
    if not attach.present:
        return Refusal(INVALID_FIELD, "a producer's target must not be null")
    if attach.address is None:
        if attach.outgoing:
            return Refusal(INVALID_FIELD, "a consumer's source must name a topic or queue")
        return Relay()
    said = said_by(attach.capabilities)
    if isinstance(said, Refusal):
        return said
    destination = destination_of(attach.address, said, bare)
    if isinstance(destination, Refusal):
        return destination
    return wish_for(destination, attach, container)


def _made(attach: Attach) -> Make | Refusal:
    if attach.address is not None:
        return Refusal(INVALID_FIELD, "a dynamic terminus has no address, it is given one")
    kind = wanted_kind(attach.capabilities)
    return kind if isinstance(kind, Refusal) else Make(kind)


def wish_for(destination: Destination, attach: Attach, container: str) -> Wish:
    """What the link wants of this destination."""
    return _consumer(attach, container, destination) if attach.outgoing else Produce(destination)


def _consumer(attach: Attach, container: str, destination: Destination) -> Wish:
    selector = _selector(attach)
    if isinstance(selector, Refusal):
        return selector
    no_local = any(descriptor in NO_LOCAL_DESCRIPTORS for descriptor in attach.filters)
    if destination.is_queue:
        if no_local:
            return Refusal(INVALID_FIELD, "no-local is for topics; a queue's consumers share it")
        if selector is not None:
            return Refusal(
                NOT_IMPLEMENTED, "selectors on queues are not served yet, those on topics are"
            )
        if attach.copy:
            return Browse(destination)
        return Subscribe(key_of_queue(destination), Definition(destination.topic, shared=True))
    shared = "shared" in attach.capabilities
    global_ = "global" in attach.capabilities
    if no_local and (shared or (global_ and attach.durable)):
        return Refusal(INVALID_FIELD, "no-local is for the subscriptions of one container, alone")
    key = key_of_link(
        container, attach.name, shared=shared, global_=global_, durable=attach.durable
    )
    return Subscribe(key, Definition(destination.topic, shared, selector, no_local))


def _selector(attach: Attach) -> str | Refusal | None:
    """The text of the one selector; a blank one selects everything, as if there were none."""
    match attach.selectors:
        case ():
            return None
        case (str(text),):
            return text if text.strip() else None
        case (_,):
            return Refusal(INVALID_FIELD, "a selector filter's value must be a string")
    return Refusal(INVALID_FIELD, "a source has one selector, not several")


def unreadable(selector: str, *, chars_max: int, depth_max: int) -> Refusal | None:
    """Why this is no selector, if it is none."""
    try:
        parse(selector, chars_max=chars_max, depth_max=depth_max)
    except SelectorError as error:
        return Refusal(INVALID_FIELD, str(error))
    return None


def echo(
    link: ProtonLink,
    topic: str | None = None,
    *,
    message_bytes_max: int = 0,
    presettled: bool = False,
) -> None:
    """Answer the attach with what was asked for, except what isn't honoured: unknown filters.

    A terminus that doesn't say the kind of its `topic` is told, and a dynamic one its address. The
    settle mode is the peer's own, unless what we send is `presettled`; receiver-settle-mode is
    `first` whatever it asked.
    """
    _copy(link)
    link.snd_settle_mode = ProtonLink.SND_SETTLED if presettled else link.remote_snd_settle_mode
    link.rcv_settle_mode = ProtonLink.RCV_FIRST
    if message_bytes_max:
        link.max_message_size = message_bytes_max
    terminus = link.source if link.is_sender else link.target
    words = _symbols(terminus.capabilities)
    if topic is None:
        return
    if said_by(words) is None:
        terminus.capabilities.clear()
        _put(terminus.capabilities, [kind_of_topic(topic), *sorted(words)])
    if terminus.dynamic:
        _name(terminus, topic)


def offered(topic: str | None, *, outgoing: bool) -> tuple[str, ...]:
    """The capabilities of a link, by the destination that it has, if it has one."""
    if not outgoing:
        return PRODUCER_OFFERS
    is_topic = topic and kind_of_topic(topic) in {Kind.TOPIC, Kind.TEMPORARY_TOPIC}
    return CONSUMER_OFFERS if is_topic else ()


def _put_outcomes(source: Terminus, asked: frozenset[str]) -> None:
    """The outcomes that may be given: of those that the peer asked for, else all."""
    _put(source.outcomes, [name for name in OUTCOMES if name in asked] or OUTCOMES)


def _name(terminus: Terminus, address: str) -> None:
    """What was made for a dynamic terminus: its address, and how long it truly lives."""
    terminus.address = address
    terminus.durability = Terminus.NONDURABLE
    terminus.expiry_policy = Terminus.EXPIRE_WITH_LINK
    terminus.properties.clear()
    policy = Described(ulong(DELETE_ON_CLOSE), [])
    terminus.properties.put_dict({symbol("lifetime-policy"): policy})


def _copy(link: ProtonLink) -> None:
    """The termini as the peer gave them, as far as they are understood."""
    copy_plainly(link.source, link.remote_source)
    copy_plainly(link.target, link.remote_target)
    ours, asker = (
        (link.source, link.remote_source) if link.is_sender else (link.target, link.remote_target)
    )
    if words := _words(asker.capabilities):
        _put(ours.capabilities, words)
    asked = _symbols(link.remote_source.outcomes)
    if link.is_sender or asked:
        _put_outcomes(link.source, asked)
    if link.is_sender:
        _put_filters(link.source, _honoured(link.remote_source.filter))


def _selectors(data: Data) -> tuple[object, ...]:
    found = _honoured(data).values()
    filters = [one for one in found if isinstance(one, Described)]
    return tuple(one.value for one in filters if one.descriptor in SELECTOR_DESCRIPTORS)


def _honoured(data: Data) -> dict[object, object]:
    """The filters that are known, as they came."""
    value = _value(data)
    known = SELECTOR_DESCRIPTORS | NO_LOCAL_DESCRIPTORS
    filters = value.items() if isinstance(value, dict) else ()
    return {
        key: one
        for key, one in filters
        if isinstance(key, str)
        and isinstance(one, Described)
        and isinstance(one.descriptor, int | str)
        and one.descriptor in known
    }


def _put_filters(source: Terminus, filters: dict[object, object]) -> None:
    """Say which filters are applied. That of no-local has a value that means nothing."""
    said = {
        key: one
        if not isinstance(one, Described) or isinstance(one.value, str)
        else Described(one.descriptor, [])
        for key, one in filters.items()
    }
    if said:
        source.filter.put_object(said)


def found(link: ProtonLink, definition: Definition, *, global_: bool) -> None:
    """Answer a lookup: the source is the durable subscription that was found."""
    copy_plainly(link.target, link.remote_target)
    source = link.source
    source.type = Terminus.SOURCE
    source.address = definition.topic
    source.durability = Terminus.DELIVERIES
    source.expiry_policy = Terminus.EXPIRE_NEVER
    source.distribution_mode = Terminus.DIST_MODE_COPY
    words = ["topic"] + ["shared"] * definition.shared + ["global"] * global_
    _put(source.capabilities, words)
    filters: dict[object, object] = {}
    if definition.selector is not None:
        filters[symbol("jms-selector")] = Described(ulong(_SELECTOR), definition.selector)
    if definition.no_local:
        filters[symbol("no-local")] = Described(ulong(_NO_LOCAL), "NoLocalFilter{}")
    _put_filters(source, filters)


def _put(data: Data, words: Iterable[str]) -> None:
    data.put_array(False, Data.SYMBOL)
    data.enter()
    for word in words:
        data.put_symbol(symbol(word))
    data.exit()
