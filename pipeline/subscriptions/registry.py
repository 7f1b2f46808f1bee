"""The subscription that a link means, and the effects of the link's attach and end on it.

Rule 1: every decision is a row of a table below.
Rule 2: a refusal is a value with a sentence for the peer, not an exception.
Rule 3: the caller decides and performs in one step: between the two, nothing else may happen to the
        subscription.
"""

from dataclasses import replace
from enum import StrEnum

import msgspec

from distributary.pipeline.model.address import Destination
from distributary.pipeline.model.policy import Expiry, Lifetime, Policy, Redefine
from distributary.pipeline.model.subscription import Definition, SubscriptionKey

#: Ends the subscription's name in a link name; a number of the link, or the scope, follows.
_SEPARATOR = "|"
_GLOBAL_SUFFIX = "|global"


class Scope(StrEnum):
    """The scope within which a subscription's name is unique."""

    CONTAINER = "container"
    GLOBAL = "global"
    LINK = "link"  #: the subscription is the link's own and has no name


class LinkMeaning(msgspec.Struct, frozen=True):
    """The subscription that a consumer's link means. `cut`: the links of the subscription are
    numbered, and its name is the text before the first `|`, unless that is empty."""

    scope: Scope
    cut: bool
    durable: bool

    def key(self, container: str, link_name: str) -> SubscriptionKey | None:
        """Return the key of the subscription; None for one of the link's own."""
        if self.scope is Scope.LINK:
            return None
        at = link_name.find(_SEPARATOR) if self.cut else -1
        name = link_name[:at] if at > 0 else link_name
        return SubscriptionKey(
            container if self.scope is Scope.CONTAINER else None, name, self.durable
        )


#: (shared, global, durable) -> meaning of a link with a source. Durable is an expiry of `never` or
#: a durability that isn't `none`; shared and global are capabilities of the source.
MEANINGS: dict[tuple[bool, bool, bool], LinkMeaning] = {
    (False, False, False): LinkMeaning(Scope.LINK, cut=False, durable=False),
    (False, False, True): LinkMeaning(Scope.CONTAINER, cut=False, durable=True),
    (False, True, False): LinkMeaning(Scope.LINK, cut=False, durable=False),
    (False, True, True): LinkMeaning(Scope.GLOBAL, cut=False, durable=True),
    (True, False, False): LinkMeaning(Scope.CONTAINER, cut=True, durable=False),
    (True, False, True): LinkMeaning(Scope.CONTAINER, cut=True, durable=True),
    (True, True, False): LinkMeaning(Scope.GLOBAL, cut=True, durable=False),
    (True, True, True): LinkMeaning(Scope.GLOBAL, cut=True, durable=True),
}

#: (shared, global) -> the durable subscription that a link without a source looks for, to end it.
#: Shared and global are capabilities that the link desires.
LOOKUPS: dict[tuple[bool, bool], LinkMeaning] = {
    (False, False): LinkMeaning(Scope.CONTAINER, cut=False, durable=True),
    (False, True): LinkMeaning(Scope.GLOBAL, cut=False, durable=True),
    (True, False): LinkMeaning(Scope.CONTAINER, cut=True, durable=True),
    (True, True): LinkMeaning(Scope.GLOBAL, cut=True, durable=True),
}


def key_of_link(
    container: str, link_name: str, *, shared: bool, global_: bool, durable: bool
) -> SubscriptionKey | None:
    """Return the subscription that a consumer's link means, None for one of the link's own.

    Clients name the links of a shared subscription `N`, `N|2`, `N|global`, `N|volatile1`, ...; the
    link of an exclusive subscription has its name unchanged.
    """
    return MEANINGS[shared, global_, durable].key(container, link_name)


def key_of_lookup(
    container: str, link_name: str, *, shared: bool = False, global_: bool = False
) -> SubscriptionKey:
    """Return the durable subscription that a link without a source asks for, to unsubscribe.

    A client that desires no capabilities may name a shared global subscription by the suffix
    `|global`, with which no subscription's own name ends.
    """
    if not shared and not global_ and link_name.endswith(_GLOBAL_SUFFIX):
        shared = global_ = link_name != _GLOBAL_SUFFIX
    key = LOOKUPS[shared, global_].key(container, link_name)
    assert key is not None  # noqa: S101 (no row is of a link's own)
    return key


def key_of_queue(queue: Destination) -> SubscriptionKey:
    """Return the key of a queue's only subscription: shared by all of its consumers, and durable
    unless the queue is temporary."""
    return SubscriptionKey(None, queue.name, durable=not queue.is_temporary, queue=True)


class Fit(StrEnum):
    """Comparison of the definition that a consumer wants with the subscription's."""

    ABSENT = "absent"  #: there is no subscription
    OTHER_SHARING = "other sharing"  #: one is shared, the other exclusive
    CHANGING_SHARING = "changing sharing"  #: the same but for the sharing, which may change
    OTHER_DEFINITION = "other definition"  #: another topic, selector or no-local
    FIXED_DEFINITION = "fixed definition"  #: the same, and it may not be redefined
    SAME_SHARED = "same, shared"
    SAME_EXCLUSIVE = "same, exclusive"


class Presence(StrEnum):
    """The consumers that a subscription has."""

    NOBODY = "nobody"
    SOME = "some"
    FULL = "full"  #: as many as its policy allows


class AttachAction(StrEnum):
    CREATE = "create"
    JOIN = "join"
    CHANGE_SHARING = "change sharing"  #: make it shared, or exclusive, as it is; then join
    REDEFINE = "redefine"  #: drop the backlog, take the new definition, then join
    REFUSE_IN_USE = "refuse in use"
    REFUSE_FIXED = "refuse fixed"
    REFUSE_FULL = "refuse full"


class AttachDecision(msgspec.Struct, frozen=True):
    """Decision about a consumer's link; `reason` is for the peer, empty unless refused."""

    action: AttachAction
    reason: str = ""


_CREATE = AttachDecision(AttachAction.CREATE)
_JOIN = AttachDecision(AttachAction.JOIN)
_REDEFINE = AttachDecision(AttachAction.REDEFINE)
_CHANGE_SHARING = AttachDecision(AttachAction.CHANGE_SHARING)
_OTHER_SHARING = AttachDecision(
    AttachAction.REFUSE_IN_USE,
    "A subscription of this name exists, and only one of it and the wanted one is shared.",
)
_OTHER_DEFINITION = AttachDecision(
    AttachAction.REFUSE_IN_USE,
    "The subscription has active consumers and another topic, selector or no-local.",
)
_EXCLUSIVE = AttachDecision(
    AttachAction.REFUSE_IN_USE,
    "The subscription is not shared and has an active consumer.",
)

_FIXED = AttachDecision(
    AttachAction.REFUSE_FIXED,
    "The subscription has another topic, selector or no-local, and isn't redefined by consumers "
    "(redefine of its policy): say the same, or delete it.",
)

_FULL = AttachDecision(
    AttachAction.REFUSE_FULL,
    "The subscription has as many consumers as it may (consumers_max of its policy).",
)

#: (fit, consumers) -> decision. A subscription that is absent has no consumers.
ATTACH: dict[tuple[Fit, Presence], AttachDecision] = {
    (Fit.ABSENT, Presence.NOBODY): _CREATE,
    (Fit.OTHER_SHARING, Presence.NOBODY): _OTHER_SHARING,
    (Fit.OTHER_SHARING, Presence.SOME): _OTHER_SHARING,
    (Fit.OTHER_SHARING, Presence.FULL): _OTHER_SHARING,
    (Fit.CHANGING_SHARING, Presence.NOBODY): _CHANGE_SHARING,
    (Fit.CHANGING_SHARING, Presence.SOME): _OTHER_SHARING,
    (Fit.CHANGING_SHARING, Presence.FULL): _OTHER_SHARING,
    (Fit.OTHER_DEFINITION, Presence.NOBODY): _REDEFINE,
    (Fit.OTHER_DEFINITION, Presence.SOME): _OTHER_DEFINITION,
    (Fit.OTHER_DEFINITION, Presence.FULL): _OTHER_DEFINITION,
    (Fit.FIXED_DEFINITION, Presence.NOBODY): _FIXED,
    (Fit.FIXED_DEFINITION, Presence.SOME): _FIXED,
    (Fit.FIXED_DEFINITION, Presence.FULL): _FIXED,
    (Fit.SAME_SHARED, Presence.NOBODY): _JOIN,
    (Fit.SAME_SHARED, Presence.SOME): _JOIN,
    (Fit.SAME_SHARED, Presence.FULL): _FULL,
    (Fit.SAME_EXCLUSIVE, Presence.NOBODY): _JOIN,
    (Fit.SAME_EXCLUSIVE, Presence.SOME): _EXCLUSIVE,
    (Fit.SAME_EXCLUSIVE, Presence.FULL): _EXCLUSIVE,
}


#: Policy of a subscription that no settings, file or record speaks of.
JMS = Policy(redefine=Redefine.REPLACE)


def decide_attach(
    existing: Definition | None,
    consumers: int,
    wanted: Definition,
    policy: Policy = JMS,
) -> AttachDecision:
    """Decide about a link that wants this definition for the subscription of its key. `policy` is
    the subscription's; its `redefine` isn't `auto`."""
    return ATTACH[_fit(existing, wanted, policy), _presence(consumers, policy.consumers_max)]


def _presence(consumers: int, consumers_max: int) -> Presence:
    if not consumers:
        return Presence.NOBODY
    return Presence.FULL if 0 < consumers_max <= consumers else Presence.SOME


def _fit(existing: Definition | None, wanted: Definition, policy: Policy) -> Fit:
    if existing is None:
        return Fit.ABSENT
    if existing.shared != wanted.shared:
        if not policy.sharing_may_change:
            return Fit.OTHER_SHARING
        fit = _fit(existing, replace(wanted, shared=existing.shared), policy)
        same = fit in (Fit.SAME_SHARED, Fit.SAME_EXCLUSIVE)
        return Fit.CHANGING_SHARING if same else fit
    redefine = policy.redefine
    silent = wanted.selector is None and not wanted.no_local and wanted.topic == existing.topic
    if existing != wanted and not (silent and redefine is Redefine.INHERIT):
        replaced = redefine is Redefine.REPLACE
        return Fit.OTHER_DEFINITION if replaced else Fit.FIXED_DEFINITION
    return Fit.SAME_SHARED if existing.shared else Fit.SAME_EXCLUSIVE


class LinkKind(StrEnum):
    """Role of a link for its subscription."""

    LOOKUP = "lookup"  #: asked for the subscription by name, to unsubscribe; no consumer
    DURABLE = "durable"  #: a consumer of a durable subscription, shared or exclusive
    EXPIRING = "expiring"  #: the same, of one that ends with its last link
    VOLATILE = "volatile"  #: a consumer of a shared non-durable subscription
    PRIVATE = "private"  #: the one consumer of a subscription without a name
    QUEUE = "queue"  #: a consumer of a queue, which doesn't end with its consumers
    BROWSER = "browser"  #: reads a queue through a subscription of its own, like a private one


class LeaveAction(StrEnum):
    KEEP = "keep"
    DELETE = "delete"
    REFUSE_IN_USE = "refuse in use"  #: the link goes with an error, the subscription stays


_WITH_LINK = Expiry(Lifetime.LINK_DETACH)

#: Expiry in the answer to an attach; None: as asked for, as it has no effect. A durable
#: subscription's expiry is in its policy. Subscriptions that aren't durable end with their last
#: link, perhaps earlier than asked for, and the answer says so.
LIFETIMES: dict[LinkKind, Expiry | None] = {
    LinkKind.VOLATILE: _WITH_LINK,
    LinkKind.PRIVATE: _WITH_LINK,
    LinkKind.QUEUE: None,
    LinkKind.BROWSER: _WITH_LINK,
}


def expiry_of(kind: LinkKind, policy: Policy) -> Expiry | None:
    """Return the expiry in the answer to an attach to a subscription with this policy."""
    return policy.ends if kind is LinkKind.DURABLE else LIFETIMES[kind]


class LeaveDecision(msgspec.Struct, frozen=True):
    """Decision about a subscription at a link's end; `reason` is for the peer if refused."""

    action: LeaveAction
    reason: str = ""


_KEEP = LeaveDecision(LeaveAction.KEEP)
_DELETE = LeaveDecision(LeaveAction.DELETE)
_IN_USE = LeaveDecision(
    LeaveAction.REFUSE_IN_USE,
    "The subscription has other active consumers and can't be deleted.",
)

#: (kind, closed, has other consumers) -> decision. A link's own subscription has no others.
LEAVE: dict[tuple[LinkKind, bool, bool], LeaveDecision] = {
    (LinkKind.LOOKUP, False, False): _KEEP,
    (LinkKind.LOOKUP, False, True): _KEEP,
    (LinkKind.LOOKUP, True, False): _DELETE,
    (LinkKind.LOOKUP, True, True): _IN_USE,
    (LinkKind.DURABLE, False, False): _KEEP,
    (LinkKind.DURABLE, False, True): _KEEP,
    (LinkKind.DURABLE, True, False): _DELETE,
    (LinkKind.DURABLE, True, True): _IN_USE,
    (LinkKind.EXPIRING, False, False): _DELETE,
    (LinkKind.EXPIRING, False, True): _KEEP,
    (LinkKind.EXPIRING, True, False): _DELETE,
    (LinkKind.EXPIRING, True, True): _IN_USE,
    (LinkKind.VOLATILE, False, False): _DELETE,
    (LinkKind.VOLATILE, False, True): _KEEP,
    (LinkKind.VOLATILE, True, False): _DELETE,
    (LinkKind.VOLATILE, True, True): _KEEP,
    (LinkKind.PRIVATE, False, False): _DELETE,
    (LinkKind.PRIVATE, True, False): _DELETE,
    (LinkKind.QUEUE, False, False): _KEEP,
    (LinkKind.QUEUE, False, True): _KEEP,
    (LinkKind.QUEUE, True, False): _KEEP,
    (LinkKind.QUEUE, True, True): _KEEP,
    (LinkKind.BROWSER, False, False): _DELETE,
    (LinkKind.BROWSER, True, False): _DELETE,
}


def decide_leave(kind: LinkKind, closed: bool, others: int) -> LeaveDecision:
    """Decide about a subscription at a link's end.

    `closed` is that field of the peer's detach; false at a session's end, a connection's close and
    its loss. `others` counts the subscription's consumers without this link. A link that was
    refused has no kind, and the caller doesn't ask about it.
    """
    return LEAVE[kind, closed, others > 0]
