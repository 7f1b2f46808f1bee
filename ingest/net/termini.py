"""The termini of a link, in the peer's attach and in our answer.

Only this module reads and writes Proton's sources and targets;
`pipeline.subscriptions.attach_intent` decides their meaning.
"""

from collections.abc import Iterable

from proton import Data, Described, Terminus, symbol, ulong
from proton import Link as ProtonLink

from distributary.ingest.net.frames.engine_error import BROKEN_VALUES, BrokenFrame
from distributary.pipeline.amqp.delivery_state import OUTCOMES as STATES
from distributary.pipeline.amqp.performative import WalkedAttach
from distributary.pipeline.codec.amqp_codes import Descriptor
from distributary.pipeline.model.address import kind_of_topic, said_by
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.policy import NO_EXPIRY, Expiry, Lifetime
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.model.transitions import DeliveryState
from distributary.pipeline.subscriptions.attach_intent import (
    COORDINATOR_OFFERS,
    NO_LOCAL,
    NO_LOCAL_DESCRIPTORS,
    SELECTOR,
    SELECTOR_DESCRIPTORS,
    Attach,
)

#: Outcomes of deliveries (AMQP 1.0 part 3, section 3.4).
OUTCOMES = (
    "amqp:accepted:list",
    "amqp:rejected:list",
    "amqp:released:list",
    "amqp:modified:list",
)


def read(link: ProtonLink, walked: WalkedAttach) -> Attach:
    """Read the attach of a link that its peer has just opened. Raises BrokenFrame."""
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
        # Read even if it isn't used: here a broken one is reported as its peer's fault.
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
    """Return when a durable source ends by itself; without a policy NO_EXPIRY, not AMQP's default
    of the session's end. A client that asks for durability doesn't mean that; our answer tells the
    policy that applies."""
    return Expiry(Lifetime(word), seconds) if word in set(Lifetime) else NO_EXPIRY


def words_of(data: object) -> frozenset[str]:
    """Return the symbols of a terminus' field. Raises ValueError if it has other values."""
    return frozenset(_words(data))


def _words(data: object) -> list[str]:
    """Return the symbols of a field: one, an array, or a list, as Proton's SymbolList writes it.
    Raises ValueError for any other value, rather than leave it out."""
    value = _value(data)
    if value is None:
        return []
    elements = value if isinstance(value, list) else getattr(value, "elements", [value])
    if not all(isinstance(word, str) and word.isascii() for word in elements):
        raise ValueError("a capability or an outcome is a symbol")
    return list(map(str, elements))


def filters_of(data: object) -> tuple[object, ...]:
    """Return the descriptors of a source's filters; None for one that is no symbol or number."""
    value = _value(data)
    if not isinstance(value, dict):
        return ()
    descriptors = (v.descriptor if isinstance(v, Described) else None for v in value.values())
    # A descriptor of another type can't be compared with the known ones; it is unknown, too.
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
    more: Iterable[str] = (),
) -> None:
    """Answer the attach with the termini that were asked for, without unknown filters.

    A source tells the `expiry` of its subscription, if given, and whether that is `durable`. Where
    the terminus doesn't name the kind of its `topic` the kind is added, and to a dynamic terminus
    its address; `more` capabilities are added, too. The sender-settle-mode is the peer's, but for
    `presettled` messages of ours; the receiver-settle-mode is always `first`.
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
    kinds = [kind_of_topic(topic)] if said_by(words) is None else []
    if added := [*kinds, *more]:
        terminus.capabilities.clear()
        _put(terminus.capabilities, [*added, *sorted(words)])
    if terminus.dynamic:
        _name(terminus, topic)


#: The engine's expiry policy of each lifetime, and the lifetime of each policy.
POLICIES = {
    Lifetime.LINK_DETACH: Terminus.EXPIRE_WITH_LINK,
    Lifetime.SESSION_END: Terminus.EXPIRE_WITH_SESSION,
    Lifetime.CONNECTION_CLOSE: Terminus.EXPIRE_WITH_CONNECTION,
    Lifetime.NEVER: Terminus.EXPIRE_NEVER,
}
LIFETIMES = {policy: lifetime for lifetime, policy in POLICIES.items()}


def _put_expiry(source: Terminus, expiry: Expiry, *, durable: bool) -> None:
    """Set when the subscription ends by itself, and whether it outlives the gateway."""
    source.expiry_policy = POLICIES[expiry.lifetime]
    source.timeout = 0 if expiry.lifetime is Lifetime.NEVER else expiry.seconds
    if not durable:
        source.durability = Terminus.NONDURABLE
    elif source.durability == Terminus.NONDURABLE:
        source.durability = Terminus.CONFIGURATION


def _put_outcomes(source: Terminus, asked: frozenset[str]) -> None:
    """Set the allowed outcomes: the known ones that the peer asked for, else all."""
    _put(source.outcomes, [name for name in OUTCOMES if name in asked] or OUTCOMES)


def _name(terminus: Terminus, address: str) -> None:
    """Set the address that was made for a dynamic terminus, and its actual lifetime."""
    terminus.address = address
    terminus.durability = Terminus.NONDURABLE
    terminus.expiry_policy = Terminus.EXPIRE_WITH_LINK
    terminus.properties.clear()
    policy = Described(ulong(Descriptor.DELETE_ON_CLOSE), [])
    terminus.properties.put_dict({symbol("lifetime-policy"): policy})


def _copy(link: ProtonLink) -> None:
    """Copy the fields of the peer's termini that the gateway understands."""
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
    """Answer the attach of a controller of transactions with the capabilities that it gets."""
    asked = words_of(link.remote_target.capabilities)
    _copy(link)
    link.snd_settle_mode = link.remote_snd_settle_mode
    link.rcv_settle_mode = ProtonLink.RCV_FIRST
    link.target.capabilities.clear()
    _put(link.target.capabilities, sorted(asked & COORDINATOR_OFFERS or COORDINATOR_OFFERS))


def selectors_of(data: Data) -> tuple[object, ...]:
    """Return the values of a source's filters that are selectors."""
    found = _honoured(data).values()
    filters = [one for one in found if isinstance(one, Described)]
    return tuple(one.value for one in filters if one.descriptor in SELECTOR_DESCRIPTORS)


def _honoured(data: Data) -> dict[object, object]:
    """Return the known filters, unchanged."""
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
    """Set the filters that are applied. The value of the no-local filter has no meaning."""
    said = {
        key: one
        if not isinstance(one, Described) or isinstance(one.value, str)
        else Described(one.descriptor, [])
        for key, one in filters.items()
    }
    if said:
        source.filter.put_object(said)


def found(link: ProtonLink, definition: Definition, expiry: Expiry, *, global_: bool) -> None:
    """Answer a lookup with the durable subscription that was found, as a source."""
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


def copy_plainly(terminus: Terminus, remote: Terminus) -> None:
    """Copy the numbers and texts of a terminus. Other values of a peer are never sent back: they
    may be invalid AMQP, and a value that the engine can't write would end the process."""
    terminus.copy(remote)
    for data in (terminus.properties, terminus.capabilities, terminus.outcomes, terminus.filter):
        data.clear()


def described(delivery_state: DeliveryState) -> Described:
    """Return an outcome in the form of a source's default outcome."""
    [code] = (code for code, outcome in STATES.items() if outcome is delivery_state.outcome)
    modified = delivery_state.outcome is Outcome.MODIFIED
    said = (delivery_state.failed, delivery_state.undeliverable)
    return Described(ulong(code), [*said] if modified else [])
