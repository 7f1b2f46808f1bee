"""Every row of the tables of attach and leave, and every form that a link name has."""

from itertools import product

import pytest
from msgspec import structs

from distributary.pipeline.model.address import Kind, destination_of
from distributary.pipeline.model.policy import Expiry, Lifetime, Redefine
from distributary.pipeline.model.subscription import Definition, Origin, SubscriptionKey
from distributary.pipeline.subscriptions.registry import (
    ATTACH,
    JMS,
    LEAVE,
    LIFETIMES,
    LOOKUPS,
    MEANINGS,
    AttachAction,
    Fit,
    LeaveAction,
    LinkKind,
    Presence,
    decide_attach,
    decide_leave,
    expiry_of,
    key_of_link,
    key_of_lookup,
    key_of_queue,
)

SHARED = Definition("orders", shared=True)
EXCLUSIVE = Definition("orders", shared=False)
CREATE, JOIN, CHANGE_SHARING, REDEFINE, REFUSE, FIXED, FULL = AttachAction
KEEP, DELETE, LEAVE_REFUSE = LeaveAction

ATTACH_ROWS = [
    # what there is, consumers, what is wanted, what happens
    (None, 0, SHARED, CREATE),
    (None, 0, EXCLUSIVE, CREATE),
    (SHARED, 0, EXCLUSIVE, REFUSE),
    (SHARED, 2, EXCLUSIVE, REFUSE),
    (EXCLUSIVE, 0, SHARED, REFUSE),
    (EXCLUSIVE, 1, SHARED, REFUSE),
    (SHARED, 0, Definition("invoices", shared=True), REDEFINE),
    (SHARED, 0, Definition("orders", shared=True, selector="a = 1"), REDEFINE),
    (SHARED, 0, Definition("orders", shared=True, no_local=True), REDEFINE),
    (SHARED, 1, Definition("invoices", shared=True), REFUSE),
    (SHARED, 1, Definition("orders", shared=True, selector="a = 1"), REFUSE),
    (EXCLUSIVE, 0, Definition("invoices", shared=False), REDEFINE),
    (EXCLUSIVE, 1, Definition("invoices", shared=False), REFUSE),
    (SHARED, 0, SHARED, JOIN),
    (SHARED, 16, SHARED, JOIN),
    (EXCLUSIVE, 0, EXCLUSIVE, JOIN),
    (EXCLUSIVE, 1, EXCLUSIVE, REFUSE),
]

LEAVE_ROWS = [
    # the link, closed, other consumers, what happens to the subscription
    (LinkKind.LOOKUP, False, 0, KEEP),
    (LinkKind.LOOKUP, False, 1, KEEP),
    (LinkKind.LOOKUP, True, 0, DELETE),
    (LinkKind.LOOKUP, True, 1, LEAVE_REFUSE),
    (LinkKind.DURABLE, False, 0, KEEP),
    (LinkKind.DURABLE, False, 1, KEEP),
    (LinkKind.DURABLE, True, 0, DELETE),
    (LinkKind.DURABLE, True, 3, LEAVE_REFUSE),
    (LinkKind.EXPIRING, False, 0, DELETE),
    (LinkKind.EXPIRING, False, 1, KEEP),
    (LinkKind.EXPIRING, True, 0, DELETE),
    (LinkKind.EXPIRING, True, 3, LEAVE_REFUSE),
    (LinkKind.VOLATILE, False, 0, DELETE),
    (LinkKind.VOLATILE, False, 1, KEEP),
    (LinkKind.VOLATILE, True, 0, DELETE),
    (LinkKind.VOLATILE, True, 1, KEEP),
    (LinkKind.PRIVATE, False, 0, DELETE),
    (LinkKind.PRIVATE, True, 0, DELETE),
    (LinkKind.QUEUE, False, 0, KEEP),
    (LinkKind.QUEUE, False, 2, KEEP),
    (LinkKind.QUEUE, True, 0, KEEP),
    (LinkKind.QUEUE, True, 2, KEEP),
    (LinkKind.BROWSER, False, 0, DELETE),
    (LinkKind.BROWSER, True, 0, DELETE),
]

LINK_ROWS = [
    # link name, shared, global, durable, key
    ("N", False, False, False, None),
    ("N", False, True, False, None),
    ("N", False, False, True, SubscriptionKey("c1", "N", durable=True)),
    ("N", False, True, True, SubscriptionKey(None, "N", durable=True)),
    ("N|2", False, True, True, SubscriptionKey(None, "N|2", durable=True)),
    ("N", True, False, True, SubscriptionKey("c1", "N", durable=True)),
    ("N|2", True, False, True, SubscriptionKey("c1", "N", durable=True)),
    ("N|global", True, True, True, SubscriptionKey(None, "N", durable=True)),
    ("N|global2", True, True, True, SubscriptionKey(None, "N", durable=True)),
    ("N|volatile1", True, False, False, SubscriptionKey("c1", "N", durable=False)),
    ("N|global-volatile1", True, True, False, SubscriptionKey(None, "N", durable=False)),
    ("a|b|c", True, False, True, SubscriptionKey("c1", "a", durable=True)),
    ("N|2", False, False, True, SubscriptionKey("c1", "N|2", durable=True)),
    ("|global", True, True, True, SubscriptionKey(None, "|global", durable=True)),
]

LOOKUP_ROWS = [
    # link name, shared, global (both desired by the link), key
    ("N", False, False, SubscriptionKey("c1", "N", durable=True)),
    ("N|2", False, False, SubscriptionKey("c1", "N|2", durable=True)),
    ("N", False, True, SubscriptionKey(None, "N", durable=True)),
    ("N|2", False, True, SubscriptionKey(None, "N|2", durable=True)),
    ("N", True, False, SubscriptionKey("c1", "N", durable=True)),
    ("N|2", True, False, SubscriptionKey("c1", "N", durable=True)),
    ("N|global", True, True, SubscriptionKey(None, "N", durable=True)),
    ("N|global2", True, True, SubscriptionKey(None, "N", durable=True)),
    ("|global", True, True, SubscriptionKey(None, "|global", durable=True)),
    # by its name alone
    ("N|global", False, False, SubscriptionKey(None, "N", durable=True)),
    ("N|global|2", False, False, SubscriptionKey("c1", "N|global|2", durable=True)),
    ("|global", False, False, SubscriptionKey("c1", "|global", durable=True)),
]


@pytest.mark.parametrize(("existing", "consumers", "wanted", "action"), ATTACH_ROWS)
def test_attach(existing, consumers, wanted, action):
    """A consumer creates, joins or redefines, or is refused with a sentence that says why."""
    decision = decide_attach(existing, consumers, wanted)
    assert decision.action is action
    assert bool(decision.reason) == (action is REFUSE)


FULL_ROWS = [
    # what there is, consumers, how many it may have, what is wanted, what happens
    (SHARED, 2, 3, SHARED, JOIN),
    (SHARED, 3, 3, SHARED, FULL),
    (SHARED, 4, 3, SHARED, FULL),  # it could have more before
    (SHARED, 0, 1, SHARED, JOIN),
    (SHARED, 1, 1, SHARED, FULL),
    (SHARED, 1, 1, EXCLUSIVE, REFUSE),
    (SHARED, 1, 1, Definition("invoices", shared=True), REFUSE),
    (EXCLUSIVE, 1, 1, EXCLUSIVE, REFUSE),
    (EXCLUSIVE, 1, 1, SHARED, REFUSE),
    (EXCLUSIVE, 1, 1, Definition("invoices", shared=False), REFUSE),
]


@pytest.mark.parametrize(("existing", "consumers", "most", "wanted", "action"), FULL_ROWS)
def test_attach_where_consumers_are_limited(existing, consumers, most, wanted, action):
    """A consumer beyond the limit is refused; one that can't attach anyway is told why."""
    decision = decide_attach(existing, consumers, wanted, structs.replace(JMS, consumers_max=most))
    assert decision.action is action
    assert bool(decision.reason) == (action in (REFUSE, FULL))


SELECTED = Definition("orders", shared=True, selector="a = 1")
LOCAL = Definition("orders", shared=False, no_local=True)
REDEFINE_ROWS = [
    # what its policy says, what there is, consumers, what is wanted, what happens
    (Redefine.REFUSE, SELECTED, 0, SHARED, FIXED),
    (Redefine.REFUSE, SELECTED, 2, SHARED, FIXED),
    (Redefine.REFUSE, SELECTED, 0, SELECTED, JOIN),
    (Redefine.REFUSE, SELECTED, 0, Definition("bills", shared=True), FIXED),
    (Redefine.REFUSE, SELECTED, 0, EXCLUSIVE, REFUSE),
    (Redefine.REFUSE, None, 0, SHARED, CREATE),
    (Redefine.INHERIT, SELECTED, 0, SHARED, JOIN),
    (Redefine.INHERIT, SELECTED, 2, SHARED, JOIN),
    (Redefine.INHERIT, SELECTED, 0, Definition("orders", shared=True, selector="b = 2"), FIXED),
    (Redefine.INHERIT, SELECTED, 0, Definition("bills", shared=True), FIXED),
    (Redefine.INHERIT, LOCAL, 0, EXCLUSIVE, JOIN),
    (Redefine.INHERIT, LOCAL, 1, EXCLUSIVE, REFUSE),
    (Redefine.INHERIT, EXCLUSIVE, 0, LOCAL, FIXED),
    (Redefine.REPLACE, SELECTED, 0, SHARED, REDEFINE),
    (Redefine.REPLACE, SELECTED, 1, SHARED, REFUSE),
]


@pytest.mark.parametrize(("said", "existing", "consumers", "wanted", "action"), REDEFINE_ROWS)
def test_attach_with_another_definition(said, existing, consumers, wanted, action):
    """As the policy says; what is refused changes nothing."""
    decision = decide_attach(existing, consumers, wanted, structs.replace(JMS, redefine=said))
    assert decision.action is action
    assert bool(decision.reason) == (action in (REFUSE, FIXED))


SHARING_ROWS = [
    # what there is, consumers, what is wanted, what happens
    (SHARED, 0, EXCLUSIVE, CHANGE_SHARING),
    (EXCLUSIVE, 0, SHARED, CHANGE_SHARING),
    (SHARED, 1, EXCLUSIVE, REFUSE),
    (EXCLUSIVE, 1, SHARED, REFUSE),
    (SHARED, 3, EXCLUSIVE, REFUSE),  # as many as it may have
    (SHARED, 0, SHARED, JOIN),
    (EXCLUSIVE, 1, EXCLUSIVE, REFUSE),
    (None, 0, SHARED, CREATE),
    # another definition decides, whatever its sharing
    (SELECTED, 0, EXCLUSIVE, REDEFINE),
    (SELECTED, 1, EXCLUSIVE, REFUSE),
    (EXCLUSIVE, 0, Definition("bills", shared=True), REDEFINE),
]


@pytest.mark.parametrize(("existing", "consumers", "wanted", "action"), SHARING_ROWS)
def test_attach_where_the_sharing_may_change(existing, consumers, wanted, action):
    """A subscription without consumers takes the wanted sharing."""
    policy = structs.replace(JMS, sharing_may_change=True, consumers_max=3)
    decision = decide_attach(existing, consumers, wanted, policy)
    assert decision.action is action
    assert bool(decision.reason) == (action is REFUSE)


def test_another_sharing_redefines_nothing_that_is_fixed():
    """`refuse` and `inherit` hold for it as for the same sharing."""
    for redefine, action in ((Redefine.REFUSE, FIXED), (Redefine.INHERIT, CHANGE_SHARING)):
        policy = structs.replace(JMS, sharing_may_change=True, redefine=redefine)
        assert decide_attach(SELECTED, 0, EXCLUSIVE, policy).action is action


def test_an_operators_subscription_is_not_redefined_by_an_omission():
    """Unless its policy says so; a client's is as JMS says."""
    of = Redefine.AUTO.of
    assert [of(one) for one in Origin] == [Redefine.REPLACE, Redefine.REFUSE, Redefine.REPLACE]
    for said in set(Redefine) - {Redefine.AUTO}:
        assert {said.of(one) for one in Origin} == {said}


@pytest.mark.parametrize(("kind", "closed", "others", "action"), LEAVE_ROWS)
def test_leave(kind, closed, others, action):
    """A subscription outlives its link, goes with it, or can't be deleted, with a sentence."""
    decision = decide_leave(kind, closed, others)
    assert decision.action is action
    assert bool(decision.reason) == (action is LEAVE_REFUSE)


def test_the_tables_have_no_gaps():
    """Every combination that can be is a row; what isn't there has no consumers to lose."""
    assert ATTACH.keys() == {(fit, used) for fit in Fit for used in Presence} - {
        (Fit.ABSENT, Presence.SOME),
        (Fit.ABSENT, Presence.FULL),
    }
    both = (False, True)
    assert MEANINGS.keys() == {(s, g, d) for s in both for g in both for d in both}
    assert LOOKUPS.keys() == {(s, g) for s in both for g in both}
    assert LEAVE.keys() == {
        (kind, closed, others)
        for kind in LinkKind
        for closed in (False, True)
        for others in (False, True)
        if not (kind in (LinkKind.PRIVATE, LinkKind.BROWSER) and others)
    }


@pytest.mark.parametrize(("link_name", "shared", "global_", "durable", "key"), LINK_ROWS)
def test_key_of_link(link_name, shared, global_, durable, key):
    """All links of one subscription, as JMS clients name them, have its key."""
    found = key_of_link("c1", link_name, shared=shared, global_=global_, durable=durable)
    assert found == key


@pytest.mark.parametrize(("link_name", "shared", "global_", "key"), LOOKUP_ROWS)
def test_key_of_lookup(link_name, shared, global_, key):
    """A lookup means a durable subscription: the container's, or the global one."""
    assert key_of_lookup("c1", link_name, shared=shared, global_=global_) == key


@pytest.mark.parametrize(
    ("queue", "durable"), [("queue://orders", True), ("temp-queue://orders", False)]
)
def test_key_of_queue(queue, durable):
    """A queue is one subscription of no container, apart from all others with its name."""
    destination = destination_of(queue, None, Kind.TOPIC)
    key = key_of_queue(destination)
    assert key == SubscriptionKey(None, "orders", durable=durable, queue=True)
    assert SubscriptionKey.parse(key.id) == key
    assert key != key_of_link("c1", "orders", shared=True, global_=True, durable=durable)


def test_a_consumer_and_its_lookup_mean_the_same():
    """A subscriber can unsubscribe: the lookup finds the key that the link had."""
    for name, global_ in [("N", False), ("N|global", True)]:
        link = key_of_link("c1", name, shared=True, global_=global_, durable=True)
        assert key_of_lookup("c1", name) == link


def test_what_is_said_of_a_lifetime_is_what_a_detach_does():
    """A detach that doesn't close deletes subscriptions that end with the link, and only those."""
    no_consumers = {LinkKind.LOOKUP, LinkKind.DURABLE, LinkKind.EXPIRING}
    assert LIFETIMES.keys() == set(LinkKind) - no_consumers
    kinds = [(kind, JMS) for kind in LIFETIMES]
    for lifetime, seconds in product(Lifetime, (0, 5)):
        kinds.append(
            (
                LinkKind.DURABLE,
                structs.replace(JMS, expiry=lifetime, expiry_seconds=seconds),
            )
        )
    for kind, policy in kinds:
        said = expiry_of(kind, policy)
        if said is not None:
            durable = kind is LinkKind.DURABLE
            leaving = LinkKind.EXPIRING if durable and said.with_link else kind
            kept = decide_leave(leaving, closed=False, others=0).action is KEEP
            assert kept != (said == Expiry(Lifetime.LINK_DETACH, 0))
