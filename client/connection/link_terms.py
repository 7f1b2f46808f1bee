"""Fields of a link's attach: address, capabilities, durability, filter."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cproton
from cproton import lib as proton

from distributary.client.connection.sendable import check_text
from distributary.pipeline.errors import InvalidRequest

#: The selector filter (the number of `apache.org:selector-filter:string`), under JMS's key.
_SELECTOR, _SELECTOR_KEY = 0x0000468C00000004, "jms-selector"
#: Prefixes of addresses, and the capability of the terminus that each becomes: brokers know those.
_KINDS = {"topic://": "topic", "queue://": "queue"}


@dataclass(frozen=True, slots=True)
class Node:
    """The address of a link without its prefix, and the kind that the prefix named, if any."""

    address: str
    kind: str = ""

    @classmethod
    def of(cls, address: str) -> "Node":
        """Parse `orders`, `topic://orders` or `queue://jobs`. Raises InvalidRequest."""
        for prefix, kind in _KINDS.items():
            if address.startswith(prefix):
                found = cls(address.removeprefix(prefix), kind)
                break
        else:
            found = cls(address)
        if not found.address:
            raise InvalidRequest(f"'{address}' is no address: say orders, topic://orders or "
                                 "queue://jobs")  # fmt: skip
        check_text("an address", address)
        return found

    def __str__(self) -> str:
        return f"{self.kind}://{self.address}" if self.kind else self.address


def check_name(name: str, *, shared: bool) -> None:
    """Raise InvalidRequest for a name that the broker would take for another one: the name of a
    shared subscription is a link's name up to the first `|`."""
    if not name or (shared and "|" in name):
        raise InvalidRequest(
            f"'{name}' can't be the name of a subscription: it has 1 character at least, and no | "
            "where it is shared"
        )


@dataclass(frozen=True, slots=True)
class SourceTerms:
    """Source of a receiver; without a node a temporary queue. `shared`: by all clients."""

    name: str
    node: Node | None
    durable: bool = False
    shared: bool = False
    browse: bool = False
    selector: str = ""

    def __post_init__(self) -> None:
        """Raise InvalidRequest for what can't be sent."""
        check_text("a subscription's name", self.name)
        check_text("a selector", self.selector)


def open_sender(session: Any, name: str, node: Node, answers: str) -> Any:
    """Open a link that publishes to a node; `answers` is its source's address."""
    link = cproton.pn_sender(session, name)
    target = proton.pn_link_target(link)
    cproton.pn_terminus_set_address(target, node.address)
    cproton.pn_terminus_set_address(proton.pn_link_source(link), answers)
    if node.kind:
        put_symbols(proton.pn_terminus_capabilities(target), (node.kind,))
    return _opened(link)


def open_coordinator(session: Any, name: str) -> Any:
    """Open a link to the coordinator of transactions."""
    link = cproton.pn_sender(session, name)
    target = proton.pn_link_target(link)
    proton.pn_terminus_set_type(target, cproton.PN_COORDINATOR)
    put_symbols(proton.pn_terminus_capabilities(target), ("amqp:local-transactions",))
    return _opened(link)


def open_receiver(session: Any, terms: SourceTerms) -> Any:
    """Open a link that consumes."""
    link = cproton.pn_receiver(session, terms.name)
    source = proton.pn_link_source(link)
    words = []
    if terms.node is None:
        proton.pn_terminus_set_dynamic(source, True)
        words.append("temporary-queue")
    else:
        cproton.pn_terminus_set_address(source, terms.node.address)
        words += [terms.node.kind] if terms.node.kind else []
    words += ["shared", "global"] if terms.shared else []
    if words:
        put_symbols(proton.pn_terminus_capabilities(source), words)
    if terms.durable:
        proton.pn_terminus_set_durability(source, cproton.PN_DELIVERIES)
        proton.pn_terminus_set_expiry_policy(source, cproton.PN_EXPIRE_NEVER)
    if terms.browse:
        proton.pn_terminus_set_distribution_mode(source, cproton.PN_DIST_MODE_COPY)
    if terms.selector:
        _put_selector(proton.pn_terminus_filter(source), terms.selector)
    cproton.pn_terminus_set_address(proton.pn_link_target(link), terms.name)
    return _opened(link)


def _opened(link: Any) -> Any:
    proton.pn_link_set_snd_settle_mode(link, cproton.PN_SND_UNSETTLED)
    proton.pn_link_set_rcv_settle_mode(link, cproton.PN_RCV_FIRST)
    proton.pn_link_open(link)
    return link


def put_symbols(data: Any, words: Iterable[str]) -> None:
    """Put an array of symbols into one of Proton's data objects."""
    proton.pn_data_put_array(data, False, cproton.PN_SYMBOL)
    proton.pn_data_enter(data)
    for word in words:
        cproton.pn_data_put_symbol(data, word)
    proton.pn_data_exit(data)


def _put_selector(data: Any, selector: str) -> None:
    proton.pn_data_put_map(data)
    proton.pn_data_enter(data)
    cproton.pn_data_put_symbol(data, _SELECTOR_KEY)
    proton.pn_data_put_described(data)
    proton.pn_data_enter(data)
    proton.pn_data_put_ulong(data, _SELECTOR)
    cproton.pn_data_put_string(data, selector)
    proton.pn_data_exit(data)
    proton.pn_data_exit(data)
