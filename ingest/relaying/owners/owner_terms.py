"""A link's attach as it is made anew at the owner of its log, and the owner's answer.

It is written from values that were read (`pipeline.subscriptions.attach_intent`), never copied: the
engine can't write all data that a peer may send.
"""

from collections.abc import Mapping
from typing import Any

import cproton
import msgspec
from cproton import lib as proton
from proton import Terminus

from distributary.client.connection.link_terms import put_symbols
from distributary.ingest.net import termini
from distributary.ingest.net.link import Link
from distributary.pipeline.amqp.performative import REDELIVER
from distributary.pipeline.amqp.relayed_for import MADE, RelayedFor
from distributary.pipeline.management.management_messages import NODE
from distributary.pipeline.model.address import Kind, kind_of_topic, said_by
from distributary.pipeline.model.policy import Expiry, Lifetime
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.subscriptions.attach_intent import (
    NO_LOCAL,
    NO_LOCAL_DESCRIPTORS,
    RELEASES,
    SELECTOR,
    Attach,
)

_PRIORITY = "priority"
#: The capabilities of a source or target that have a meaning: others aren't passed on, so that no
#: attach is larger than the frames that the owner reads.
_WORDS = frozenset({*Kind, "shared", "global"})
#: Likewise those that a link desires.
DESIRED_WORDS = frozenset({"shared", "global", RELEASES})
#: Bytes of the address of a subscription that is browsed.
ADDRESS_BYTES_MAX = 8_192
#: Limit to which a consumer's priority is cut.
INT64 = (1 << 63) - 1


class OwnerTerms(msgspec.Struct, frozen=True):
    """Terms of a relayed link: its client's attach, its topic as the log writes it (None: it has
    none), and the client it is for (`said`). `durable`: after a restart the owner still has the
    subscription, under the same sequences. `browses`: it is a browser, whose view no next owner
    has."""

    attach: Attach
    topic: str | None
    said: RelayedFor
    durable: bool = False
    browses: bool = False


class OwnerAnswer(msgspec.Struct, frozen=True):
    """The owner's answer about the source of a consumer's link. `made`: the link has made its
    subscription there."""

    expiry: Expiry
    durable: bool
    presettled: bool
    made: bool


def open_producer(session: Any, link: Link, terms: OwnerTerms) -> Any:
    """Open the link at the owner for a client's link that sends; return Proton's pointer."""
    made = cproton.pn_sender(session, link.name)
    target = proton.pn_link_target(made)
    if terms.topic is not None:
        _put_address(target, terms.topic, terms.attach)
    return _opened(made, link, terms)


def open_consumer(session: Any, link: Link, terms: OwnerTerms) -> Any:
    """Open the link at the owner for a client's link that receives; return Proton's pointer."""
    made = cproton.pn_receiver(session, link.name)
    source, attach = proton.pn_link_source(made), terms.attach
    if not attach.present:
        proton.pn_terminus_set_type(source, cproton.PN_UNSPECIFIED)
    elif terms.topic is not None:
        _put_address(source, terms.topic, attach)
    else:
        cproton.pn_terminus_set_address(source, attach.address)
    if attach.durable:
        proton.pn_terminus_set_durability(source, cproton.PN_CONFIGURATION)
    if link.attach.expiry in set(Lifetime):
        policy = termini.POLICIES[Lifetime(link.attach.expiry)]
        proton.pn_terminus_set_expiry_policy(source, policy)
        proton.pn_terminus_set_timeout(source, attach.expiry.seconds)
    if attach.copy:
        proton.pn_terminus_set_distribution_mode(source, cproton.PN_DIST_MODE_COPY)
    _put_filters(proton.pn_terminus_filter(source), attach)
    if link.message_bytes_max:
        proton.pn_link_set_max_message_size(made, link.message_bytes_max)
    return _opened(made, link, terms)


def open_coordinator(session: Any, name: str, said: RelayedFor) -> Any:
    """Open a link to the owner's coordinator of transactions; return Proton's pointer."""
    made = cproton.pn_sender(session, name)
    proton.pn_terminus_set_type(proton.pn_link_target(made), cproton.PN_COORDINATOR)
    proton.pn_link_set_snd_settle_mode(made, cproton.PN_SND_UNSETTLED)
    proton.pn_link_set_rcv_settle_mode(made, cproton.PN_RCV_FIRST)
    # To a coordinator the engine writes no properties but those of a node.
    source = proton.pn_link_source(made)
    _put_map(proton.pn_terminus_properties(source), said.properties())
    proton.pn_link_open(made)
    return made


def open_requests(session: Any, name: str, said: RelayedFor) -> Any:
    """Open a link to the owner's node `$management`; return Proton's pointer."""
    made = cproton.pn_sender(session, name)
    cproton.pn_terminus_set_address(proton.pn_link_target(made), NODE)
    return _opened_to_node(made, said)


def open_answers(session: Any, name: str, said: RelayedFor) -> Any:
    """Open the link by which that node sends answers to the address `name`."""
    made = cproton.pn_receiver(session, name)
    cproton.pn_terminus_set_address(proton.pn_link_source(made), NODE)
    cproton.pn_terminus_set_address(proton.pn_link_target(made), name)
    return _opened_to_node(made, said)


def _opened_to_node(made: Any, said: RelayedFor) -> Any:
    proton.pn_link_set_snd_settle_mode(made, cproton.PN_SND_SETTLED)
    proton.pn_link_set_rcv_settle_mode(made, cproton.PN_RCV_FIRST)
    _put_map(proton.pn_link_properties(made), said.properties())
    proton.pn_link_open(made)
    return made


def consumer_answer(made: Any) -> OwnerAnswer:
    """Return the owner's answer to a consumer."""
    source = _source(made)
    settles = proton.pn_link_remote_snd_settle_mode(made)
    return OwnerAnswer(
        Expiry(termini.LIFETIMES[source.expiry_policy], source.timeout),
        source.durability != Terminus.NONDURABLE,
        settles == cproton.PN_SND_SETTLED,
        MADE in termini.words_of(source.capabilities),
    )


def found_answer(made: Any) -> tuple[Definition, bool]:
    """Return the durable subscription that the owner has found, and whether it is global: without a
    client id."""
    source = _source(made)
    words = termini.words_of(source.capabilities)
    selectors = [one for one in termini.selectors_of(source.filter) if isinstance(one, str)]
    definition = Definition(
        source.address or "",
        "shared" in words,
        selectors[0] if selectors else None,
        not NO_LOCAL_DESCRIPTORS.isdisjoint(termini.filters_of(source.filter)),
    )
    return definition, "global" in words


def _source(made: Any) -> Terminus:
    terminus: Any = Terminus  # its own types say nothing
    found: Terminus = terminus(proton.pn_link_remote_source(made))
    return found


def _opened(made: Any, link: Link, terms: OwnerTerms) -> Any:
    settles = cproton.PN_SND_UNSETTLED
    if link.is_outgoing and link.sends_settled:
        settles = cproton.PN_SND_SETTLED
    proton.pn_link_set_snd_settle_mode(made, settles)
    proton.pn_link_set_rcv_settle_mode(made, cproton.PN_RCV_FIRST)
    more: dict[str, str | int | bool] = {}
    if link.attach.priority:
        more[_PRIORITY] = max(-INT64, min(link.attach.priority, INT64))
    if link.attach.redeliver:
        more[REDELIVER] = True
    _put_map(proton.pn_link_properties(made), {**terms.said.properties(), **more})
    proton.pn_link_open(made)
    return made


def _put_map(data: Any, said: Mapping[str, str | int | bool]) -> None:
    proton.pn_data_put_map(data)
    proton.pn_data_enter(data)
    for key, value in said.items():
        _put(data, key, value)
    proton.pn_data_exit(data)


def _put(data: Any, key: str, value: str | int | bool) -> None:
    cproton.pn_data_put_symbol(data, key)
    match value:
        case bool():
            proton.pn_data_put_bool(data, value)
        case int():
            proton.pn_data_put_long(data, value)
        case str():
            cproton.pn_data_put_string(data, value)


def _put_address(terminus: Any, topic: str, attach: Attach) -> None:
    """Write the topic's address and its kind: gateways may differ in the kind of bare addresses."""
    cproton.pn_terminus_set_address(terminus, topic)
    words = sorted(attach.capabilities & _WORDS)
    if said_by(words) is None:
        words.append(kind_of_topic(topic))
    put_symbols(proton.pn_terminus_capabilities(terminus), words)


def _put_filters(data: Any, attach: Attach) -> None:
    """Write a selector and no-local; no other filters are honoured."""
    selectors = [one for one in attach.selectors if isinstance(one, str)]
    no_local = not NO_LOCAL_DESCRIPTORS.isdisjoint(attach.filters)
    if not selectors and not no_local:
        return
    proton.pn_data_put_map(data)
    proton.pn_data_enter(data)
    for selector in selectors[:1]:
        cproton.pn_data_put_symbol(data, "jms-selector")
        proton.pn_data_put_described(data)
        proton.pn_data_enter(data)
        proton.pn_data_put_ulong(data, SELECTOR)
        cproton.pn_data_put_string(data, selector)
        proton.pn_data_exit(data)
    if no_local:
        cproton.pn_data_put_symbol(data, "no-local")
        proton.pn_data_put_described(data)
        proton.pn_data_enter(data)
        proton.pn_data_put_ulong(data, NO_LOCAL)
        proton.pn_data_put_list(data)
        proton.pn_data_exit(data)
    proton.pn_data_exit(data)
