"""Which subscription a link means, and what its coming and going does to it.

Rule 1: every decision is a row of a table below.
Rule 2: a refusal is a value with a sentence for the peer, not an exception.
Rule 3: who calls decides and performs in one step: between the two, nothing else may happen to
        the subscription.
"""

from dataclasses import dataclass
from enum import StrEnum

from pipeline.subscription import Definition, SubscriptionKey

#: Ends the subscription's name in a link name; what follows counts links, or says the scope.
_SEPARATOR = "|"
_GLOBAL_SUFFIX = "|global"


def key_of_link(
    container: str, link_name: str, *, shared: bool, global_: bool, durable: bool
) -> SubscriptionKey:
    """The subscription that a consumer's link means.

    The links of a shared subscription are `N`, `N|2`, `N|global`, `N|volatile1`, ...: its name is
    what stands before the first `|`, if anything does. Links of a subscription that isn't shared
    bear its name as it is.
    """
    at = link_name.find(_SEPARATOR) if shared else -1
    name = link_name[:at] if at > 0 else link_name
    return SubscriptionKey(None if global_ else container, name, durable)


def key_of_lookup(container: str, link_name: str) -> SubscriptionKey:
    """The durable subscription that a link without a source asks for, to unsubscribe."""
    name = link_name.removesuffix(_GLOBAL_SUFFIX)
    if name and name != link_name:
        return SubscriptionKey(None, name, durable=True)
    return SubscriptionKey(container, link_name, durable=True)


class Fit(StrEnum):
    """How what a consumer wants fits what there is under that key."""

    ABSENT = "absent"  #: there is nothing
    OTHER_SHARING = "other sharing"  #: shared, and wanted exclusively; or the other way round
    OTHER_DEFINITION = "other definition"  #: another topic, selector or no-local
    SAME_SHARED = "same, shared"
    SAME_EXCLUSIVE = "same, exclusive"


class AttachAction(StrEnum):
    CREATE = "create"
    JOIN = "join"
    REDEFINE = "redefine"  #: drop the backlog, take the new definition, then join
    REFUSE_IN_USE = "refuse in use"


@dataclass(frozen=True, slots=True)
class AttachDecision:
    """What to do with a consumer's link; `reason` is for the peer, empty unless refused."""

    action: AttachAction
    reason: str = ""


_CREATE = AttachDecision(AttachAction.CREATE)
_JOIN = AttachDecision(AttachAction.JOIN)
_REDEFINE = AttachDecision(AttachAction.REDEFINE)
_OTHER_SHARING = AttachDecision(
    AttachAction.REFUSE_IN_USE,
    "A subscription of this name exists, and only one of it and what is wanted is shared.",
)
_OTHER_DEFINITION = AttachDecision(
    AttachAction.REFUSE_IN_USE,
    "The subscription has active consumers and another topic, selector or no-local.",
)
_EXCLUSIVE = AttachDecision(
    AttachAction.REFUSE_IN_USE,
    "The subscription is not shared and has an active consumer.",
)

#: (how it fits, has consumers) -> decision. What isn't there has no consumers.
ATTACH: dict[tuple[Fit, bool], AttachDecision] = {
    (Fit.ABSENT, False): _CREATE,
    (Fit.OTHER_SHARING, False): _OTHER_SHARING,
    (Fit.OTHER_SHARING, True): _OTHER_SHARING,
    (Fit.OTHER_DEFINITION, False): _REDEFINE,
    (Fit.OTHER_DEFINITION, True): _OTHER_DEFINITION,
    (Fit.SAME_SHARED, False): _JOIN,
    (Fit.SAME_SHARED, True): _JOIN,
    (Fit.SAME_EXCLUSIVE, False): _JOIN,
    (Fit.SAME_EXCLUSIVE, True): _EXCLUSIVE,
}


def decide_attach(
    existing: Definition | None, consumers: int, wanted: Definition
) -> AttachDecision:
    """What a link that wants this definition does to the subscription of its key."""
    return ATTACH[_fit(existing, wanted), consumers > 0]


def _fit(existing: Definition | None, wanted: Definition) -> Fit:
    if existing is None:
        return Fit.ABSENT
    if existing.shared != wanted.shared:
        return Fit.OTHER_SHARING
    if existing != wanted:
        return Fit.OTHER_DEFINITION
    return Fit.SAME_SHARED if existing.shared else Fit.SAME_EXCLUSIVE


class LinkKind(StrEnum):
    """What a link is to its subscription."""

    LOOKUP = "lookup"  #: asked for it by name, to unsubscribe; no consumer
    DURABLE = "durable"  #: a consumer of a durable subscription, shared or exclusive
    VOLATILE = "volatile"  #: a consumer of a shared non-durable subscription
    PRIVATE = "private"  #: the one consumer of a subscription without a name


class LeaveAction(StrEnum):
    KEEP = "keep"
    DELETE = "delete"
    REFUSE_IN_USE = "refuse in use"  #: the link goes with an error, the subscription stays


@dataclass(frozen=True, slots=True)
class LeaveDecision:
    """What a link's end does to its subscription; `reason` is for the peer if refused."""

    action: LeaveAction
    reason: str = ""


_KEEP = LeaveDecision(LeaveAction.KEEP)
_DELETE = LeaveDecision(LeaveAction.DELETE)
_IN_USE = LeaveDecision(
    LeaveAction.REFUSE_IN_USE,
    "The subscription has other active consumers and can't be deleted.",
)

#: (kind, closed, has other consumers) -> decision. A private subscription has no others.
LEAVE: dict[tuple[LinkKind, bool, bool], LeaveDecision] = {
    (LinkKind.LOOKUP, False, False): _KEEP,
    (LinkKind.LOOKUP, False, True): _KEEP,
    (LinkKind.LOOKUP, True, False): _DELETE,
    (LinkKind.LOOKUP, True, True): _IN_USE,
    (LinkKind.DURABLE, False, False): _KEEP,
    (LinkKind.DURABLE, False, True): _KEEP,
    (LinkKind.DURABLE, True, False): _DELETE,
    (LinkKind.DURABLE, True, True): _IN_USE,
    (LinkKind.VOLATILE, False, False): _DELETE,
    (LinkKind.VOLATILE, False, True): _KEEP,
    (LinkKind.VOLATILE, True, False): _DELETE,
    (LinkKind.VOLATILE, True, True): _KEEP,
    (LinkKind.PRIVATE, False, False): _DELETE,
    (LinkKind.PRIVATE, True, False): _DELETE,
}


def decide_leave(kind: LinkKind, closed: bool, others: int) -> LeaveDecision:
    """What a link's end does to its subscription.

    `closed` is what the peer's detach says; a session's end, a connection's close and its loss are
    not closed. `others` counts the subscription's consumers without this link. A link that was
    refused has no kind and is not asked about.
    """
    return LEAVE[kind, closed, others > 0]
