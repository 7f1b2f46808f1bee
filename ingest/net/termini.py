"""The termini of a link, as the peer's attach has them and as our answer does.

Here alone Proton's sources and targets are read and written; what they mean is
`pipeline.subscriptions.attach_intent`'.
"""

from collections.abc import Iterable

from proton import Data, Described, Terminus, symbol, ulong
from proton import Link as ProtonLink

from distributary.ingest.net.frames.engine_error import BROKEN_VALUES, BrokenFrame
from distributary.ingest.net.link import copy_plainly
from distributary.pipeline.amqp.performative import WalkedAttach
from distributary.pipeline.codec.amqp_codes import Descriptor
from distributary.pipeline.model.address import kind_of_topic, said_by
from distributary.pipeline.model.policy import NO_EXPIRY, Expiry, Lifetime
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.subscriptions.attach_intent import (
    COORDINATOR_OFFERS,
    NO_LOCAL,
    NO_LOCAL_DESCRIPTORS,
    SELECTOR,
    SELECTOR_DESCRIPTORS,
    Attach,
)

#: What may become of a delivery (AMQP 1.0 part 3, section 3.4).
OUTCOMES = (
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
)


def read(link: ProtonLink, walked: WalkedAttach) -> Attach:
    """The attach of a link whose peer has just opened it. Raises BrokenFrame."""
    try:
        return _read(link, walked)
    except BROKEN_VALUES as error:
        raise BrokenFrame(f"attach of link '{link.name}': {error}") from error


def _read(link: ProtonLink, walked: WalkedAttach) -> Attach:
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
        # Read here, where a broken one is its peer's fault, whether anybody asks for it or not.
        answers=(link.remote_target if outgoing else link.remote_source).address or "",
        durable=terminus.expiry_policy == Terminus.EXPIRE_NEVER
        or terminus.durability != Terminus.NONDURABLE,
        copy=outgoing and terminus.distribution_mode == Terminus.DIST_MODE_COPY,
        capabilities=words_of(terminus.capabilities),
        desired=walked.desired,
        filters=filters_of(terminus.filter) if outgoing else (),
        selectors=selectors_of(terminus.filter) if outgoing else (),
        expiry=_expiry(walked.expiry, terminus.timeout) if outgoing else NO_EXPIRY,
    )


def _expiry(word: str, seconds: int) -> Expiry:
    """When a durable source ends by itself. AMQP's default would be with its session; who asks for
    durability and says nothing of an end doesn't mean that one, and is told so."""
    return Expiry(Lifetime(word), seconds) if word in set(Lifetime) else NO_EXPIRY


def words_of(data: object) -> frozenset[str]:
    """The words of a terminus' field of symbols. Raises ValueError when it is none."""
    return frozenset(_words(data))


def _words(data: object) -> list[str]:
    """The words of a field of symbols: one, an array, or, as Proton's SymbolList writes it, a list;
    no word is left out unseen. Raises ValueError for anything else."""
    value = _value(data)
    if value is None:
        return []
    elements = value if isinstance(value, list) else getattr(value, "elements", [value])
    if not all(isinstance(word, str) and word.isascii() for word in elements):
        raise ValueError("a capability or an outcome is a symbol")
    return list(map(str, elements))


def filters_of(data: object) -> tuple[object, ...]:
    """The descriptors of a source's filters; None for one that is neither word nor number."""
    value = _value(data)
    if not isinstance(value, dict):
        return ()
    descriptors = (v.descriptor if isinstance(v, Described) else None for v in value.values())
    # One of another kind can't be compared with those that we know; it is unknown like any other.
    return tuple(d if isinstance(d, int | str) else None for d in descriptors)


def _value(data: object) -> object:
    data.rewind()  # type: ignore[attr-defined]
    return data.get_object() if data.next() else None  # type: ignore[attr-defined]


def echo(
    link: ProtonLink,
    topic: str | None = None,
    *,
    message_bytes_max: int = 0,
    presettled: bool = False,
    expiry: Expiry | None = None,
    durable: bool = False,
) -> None:
    """Answer the attach with what was asked for, except what isn't honoured: unknown filters.

    A source says the `expiry` of what it is, if one is given, and whether that is `durable`. A
    terminus that doesn't say the kind of its `topic` is told, and a dynamic one its address. The
    settle mode is the peer's own, unless what we send is `presettled`; receiver-settle-mode is
    `first` whatever it asked.
    """
    _copy(link)
    link.snd_settle_mode = ProtonLink.SND_SETTLED if presettled else link.remote_snd_settle_mode
    link.rcv_settle_mode = ProtonLink.RCV_FIRST
    if message_bytes_max:
        link.max_message_size = message_bytes_max
    terminus = link.source if link.is_sender else link.target
    if expiry is not None:
        _put_expiry(terminus, expiry, durable=durable)
    words = words_of(terminus.capabilities)
    if topic is None:
        return
    if said_by(words) is None:
        terminus.capabilities.clear()
        _put(terminus.capabilities, [kind_of_topic(topic), *sorted(words)])
    if terminus.dynamic:
        _name(terminus, topic)


#: The engine's words for them, and the other way round.
POLICIES = {
    Lifetime.LINK_DETACH: Terminus.EXPIRE_WITH_LINK,
    Lifetime.SESSION_END: Terminus.EXPIRE_WITH_SESSION,
    Lifetime.CONNECTION_CLOSE: Terminus.EXPIRE_WITH_CONNECTION,
    Lifetime.NEVER: Terminus.EXPIRE_NEVER,
}
LIFETIMES = {policy: lifetime for lifetime, policy in POLICIES.items()}


def _put_expiry(source: Terminus, expiry: Expiry, *, durable: bool) -> None:
    """When the subscription ends by itself, and whether it outlives the gateway."""
    source.expiry_policy = POLICIES[expiry.lifetime]
    source.timeout = 0 if expiry.lifetime is Lifetime.NEVER else expiry.seconds
    if not durable:
        source.durability = Terminus.NONDURABLE
    elif source.durability == Terminus.NONDURABLE:
        source.durability = Terminus.CONFIGURATION


def _put_outcomes(source: Terminus, asked: frozenset[str]) -> None:
    """The outcomes that may be given: of those that the peer asked for, else all."""
    _put(source.outcomes, [name for name in OUTCOMES if name in asked] or OUTCOMES)


def _name(terminus: Terminus, address: str) -> None:
    """What was made for a dynamic terminus: its address, and how long it truly lives."""
    terminus.address = address
    terminus.durability = Terminus.NONDURABLE
    terminus.expiry_policy = Terminus.EXPIRE_WITH_LINK
    terminus.properties.clear()
    policy = Described(ulong(Descriptor.DELETE_ON_CLOSE), [])
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
    asked = words_of(link.remote_source.outcomes)
    if link.is_sender or asked:
        _put_outcomes(link.source, asked)
    if link.is_sender:
        _put_filters(link.source, _honoured(link.remote_source.filter))


def coordinate(link: ProtonLink) -> None:
    """Answer the attach of a controller of transactions with what of it can be done."""
    asked = words_of(link.remote_target.capabilities)
    _copy(link)
    link.snd_settle_mode = link.remote_snd_settle_mode
    link.rcv_settle_mode = ProtonLink.RCV_FIRST
    link.target.capabilities.clear()
    _put(link.target.capabilities, sorted(asked & COORDINATOR_OFFERS or COORDINATOR_OFFERS))


def selectors_of(data: Data) -> tuple[object, ...]:
    """What those of a source's filters say that are selectors."""
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


def found(link: ProtonLink, definition: Definition, expiry: Expiry, *, global_: bool) -> None:
    """Answer a lookup: the source is the durable subscription that was found."""
    copy_plainly(link.target, link.remote_target)
    source = link.source
    source.type = Terminus.SOURCE
    source.address = definition.topic
    source.durability = Terminus.DELIVERIES
    _put_expiry(source, expiry, durable=True)
    source.distribution_mode = Terminus.DIST_MODE_COPY
    words = ["topic"] + ["shared"] * definition.shared + ["global"] * global_
    _put(source.capabilities, words)
    filters: dict[object, object] = {}
    if definition.selector is not None:
        filters[symbol("jms-selector")] = Described(ulong(SELECTOR), definition.selector)
    if definition.no_local:
        filters[symbol("no-local")] = Described(ulong(NO_LOCAL), "NoLocalFilter{}")
    _put_filters(source, filters)


def _put(data: Data, words: Iterable[str]) -> None:
    data.put_array(False, Data.SYMBOL)
    data.enter()
    for word in words:
        data.put_symbol(symbol(word))
    data.exit()
