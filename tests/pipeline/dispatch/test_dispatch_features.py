"""Features beside the scenarios: counts that are asked for, views, bounds, and changes undone."""

from array import array

import pytest

from distributary.pipeline.dispatch.dispatcher import Deliver, Dispatcher
from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import Policy


def with_consumer(*, credit=100, **options):
    dispatcher = Dispatcher(0, **options)
    dispatcher.attach(1)
    dispatcher.credit(1, credit)
    return dispatcher


def grouped(first, groups):
    return HeaderAttributes(first, groups=array("Q", groups).tobytes())


def runs(effects):
    return [one for effect in effects if isinstance(effect, Deliver) for one in effect.run]


def served(dispatcher, attributes, head):
    """The deliveries for as long as a message is wanted."""
    got = []
    while dispatcher.wanted(head) is not None:
        got += runs(dispatcher.offer(0, head, attributes=attributes, now=50))
    return got


def test_times_acquired_count_what_was_no_failure():
    """Released and lost deliveries raise them, and so does a failure; only that one is told as a
    failed attempt. They are forgotten with the message."""
    dispatcher = with_consumer()
    dispatcher.offer(0, 2)
    dispatcher.settle(1, range(2), Outcome.RELEASED)
    dispatcher.offer(0, 2)
    dispatcher.settle(1, range(1), Outcome.MODIFIED, failed=True)
    (again,) = dispatcher.offer(0, 2)
    assert (again.run, again.delivery_count) == (range(1), 1)
    assert [dispatcher.acquired(one) for one in (0, 1, 2)] == [2, 1, 0]
    dispatcher.detach(1)
    assert [dispatcher.acquired(one) for one in (0, 1)] == [3, 2]
    dispatcher.attach(2)
    dispatcher.credit(2, 9)
    dispatcher.offer(0, 2)
    dispatcher.settle(2, range(2), Outcome.ACCEPTED)
    assert [dispatcher.acquired(one) for one in (0, 1)] == [0, 0]


@pytest.mark.parametrize("run", [range(8), array("q", [0, 1, 3, 5, 6])], ids=["range", "array"])
def test_held_messages_are_told_from_ready_and_given_up_ones(run):
    """Ready ones in any pool: delayed, urgent, of the usual priority; settled ones are neither."""
    policy = Policy(delivery_attempts_max=2, redelivery_delay_ms=1_000)
    dispatcher = with_consumer(policy=policy, dead_letters=True)
    dispatcher.offer(0, 8, attributes=HeaderAttributes(0, priority=bytes([4, 9, 4, 4, 4, 4, 4, 4])))
    dispatcher.settle(1, range(1), Outcome.RELEASED)
    dispatcher.settle(1, range(1, 2), Outcome.RELEASED)
    dispatcher.settle(1, range(2, 3), Outcome.ACCEPTED)
    dispatcher.settle(1, range(3, 4), Outcome.MODIFIED, failed=True)
    dispatcher.settle(1, range(4, 6), Outcome.REJECTED)
    back, held = dispatcher.returned(run)
    assert sorted(one for part in back for one in part) == [0, 1, 3]
    assert [one for part in held.runs() for one in part] == [one for one in run if one > 5]


def test_a_view_shows_what_waits_for_others():
    """The urgent first, then what waits for the consumer of its group; nothing that isn't due, and
    nothing that a consumer holds. The queue doesn't notice."""
    priority_index = PriorityIndex()
    dispatcher = with_consumer(credit=1, priority_index=priority_index)
    dispatcher.attach(2)
    dispatcher.credit(2, 1)
    attributes = HeaderAttributes(
        0,
        priority=bytes([4, 4, 4, 4, 9, 4, 1]),
        deliver_at=array("q", [0, 0, 0, 99, 0, 0, 0]).tobytes(),
        groups=array("Q", [5, 5, 5, 0, 0, 0, 0]).tobytes(),
    )
    priority_index.add(0, 7, attributes)
    assert served(dispatcher, attributes, 7) == [4, 0]
    dispatcher.credit(1, 1)
    dispatcher.credit(2, 0)
    dispatcher.settle(1, range(4, 5), Outcome.RELEASED)
    outstanding = dispatcher.outstanding
    view = dispatcher.view()
    view.attach(9)
    view.credit(9, 100)
    assert served(view, attributes, 7) == [4, 1, 2, 5, 6]
    assert (dispatcher.outstanding, dispatcher.in_flight) == (outstanding, 1)


def test_so_much_waits_for_groups_and_no_more_is_read(monkeypatch):
    """When too many wait for the consumer of their group, the rest stays unread until some went."""
    monkeypatch.setattr("distributary.pipeline.dispatch.candidates.PARKED_MAX", 100)
    dispatcher = with_consumer(credit=1)
    attributes = grouped(0, [7] * 1_000)
    dispatcher.offer(0, 1_000, attributes=attributes)
    dispatcher.attach(2)
    dispatcher.credit(2, 10)
    assert not served(dispatcher, attributes, 1_000)
    assert 100 <= dispatcher.position < 200
    dispatcher.credit(1, 150)
    assert served(dispatcher, attributes, 1_000) == list(range(1, 151))


def before_a_restart(groups):
    """Facts about the groups of messages 0 and 1, of which transactions have one each."""
    dispatcher = with_consumer(credit=2)
    dispatcher.offer(0, 2, attributes=grouped(0, groups))
    return [dispatcher.buckets(range(one, one + 1)) for one in range(2)]


@pytest.mark.parametrize("committed", [True, False])
def test_a_group_waits_for_transactions_of_before_a_restart(committed):
    """For each of its messages that a transaction has; other groups and the rest don't. A
    rollback's messages come first."""
    attributes = grouped(0, [7, 7, 7, 0, 8, 7])
    facts = before_a_restart([7, 7])
    dispatcher = Dispatcher(0)
    for one, transaction in ((0, -1), (1, -2)):
        dispatcher.withhold(transaction, range(one, one + 1), facts[one])
    dispatcher.attach(1)
    dispatcher.credit(1, 100)
    assert served(dispatcher, attributes, 6) == [3, 4]
    outcome = Outcome.ACCEPTED if committed else Outcome.RELEASED
    for one, transaction in ((0, -1), (1, -2)):
        assert not served(dispatcher, attributes, 6)
        dispatcher.settle(transaction, range(one, one + 1), outcome)
        dispatcher.forget(transaction)
    assert served(dispatcher, attributes, 6) == ([2, 5] if committed else [0, 1, 2, 5])
    dispatcher.settle(1, range(6), Outcome.ACCEPTED)
    assert dispatcher.report.remembered == 0


def test_no_group_waits_for_a_transaction_where_groups_are_off():
    facts = before_a_restart([7, 0])
    assert facts == [[7], ()]
    dispatcher = Dispatcher(0, policy=Policy(message_groups=False))
    dispatcher.withhold(-1, range(1), facts[0])
    dispatcher.attach(1)
    dispatcher.credit(1, 100)
    assert served(dispatcher, grouped(0, [7] * 3), 3) == [1, 2]


def test_so_much_waits_for_a_transaction_and_no_more_is_read(monkeypatch):
    """Though no group has an owner: the first consumer since a restart finds only what waits."""
    monkeypatch.setattr("distributary.pipeline.dispatch.candidates.PARKED_MAX", 100)
    dispatcher = Dispatcher(0)
    dispatcher.withhold(-1, range(1), before_a_restart([7, 7])[0])
    dispatcher.attach(1)
    dispatcher.credit(1, 10)
    attributes = grouped(0, [7] * 1_000)
    assert not served(dispatcher, attributes, 1_000)
    assert 100 <= dispatcher.position < 200
    dispatcher.settle(-1, range(1), Outcome.ACCEPTED)
    assert served(dispatcher, attributes, 1_000) == list(range(1, 11))


def test_a_group_waits_for_its_failed_message_whatever_single_active_becomes():
    """A policy that only says how many consumers are served frees no message of a group that
    waits."""
    dispatcher = with_consumer(credit=1, policy=Policy(redelivery_delay_ms=1_000))
    attributes = grouped(0, [7, 7, 7])
    assert served(dispatcher, attributes, 3) == [0]
    dispatcher.settle(1, range(1), Outcome.MODIFIED, failed=True)
    dispatcher.policy = Policy(redelivery_delay_ms=1_000, single_active=True)
    dispatcher.credit(1, 9)
    assert not served(dispatcher, attributes, 3)
    dispatcher.wake(2_000_000)
    assert served(dispatcher, attributes, 3) == [0, 1, 2]


def test_switching_groups_off_frees_what_waits_for_them():
    """Messages that waited for the consumer of their group may go to any consumer."""
    dispatcher = with_consumer(credit=1)
    dispatcher.offer(0, 1, attributes=grouped(0, [7]))
    dispatcher.attach(2)
    dispatcher.credit(2, 9)
    assert not dispatcher.offer(1, 4, attributes=grouped(1, [7, 7, 7]))
    assert dispatcher.wanted(4) is None
    dispatcher.policy = Policy(message_groups=False)
    assert dispatcher.wanted(4) == 1
    assert runs(dispatcher.offer(1, 4)) == [1, 2, 3]


def test_a_lower_limit_holds_for_what_failed_before():
    """A message that has failed too often for a new policy is given up when its turn comes."""
    dispatcher = with_consumer(dead_letters=True)
    dispatcher.offer(0, 1)
    dispatcher.settle(1, range(1), Outcome.MODIFIED, failed=True)
    dispatcher.policy = Policy(delivery_attempts_max=1)
    (given_up,) = dispatcher.offer(0, 1)
    assert (given_up.run, given_up.reason) == (range(1), Reason.EXHAUSTED)
    assert given_up.delivery_count == 1


def test_what_the_priority_index_names_in_vain_is_passed_over():
    """The topic has nothing there for this subscription: it goes on with what comes next."""
    priority_index = PriorityIndex()
    priority_index.add(5, 6, HeaderAttributes(5, priority=bytes([9])))
    dispatcher = with_consumer(priority_index=priority_index)
    assert dispatcher.wanted(10) == 5
    dispatcher.skip_to(10)
    assert (dispatcher.wanted(10), dispatcher.position) == (0, 0)
    assert runs(dispatcher.offer(0, 3)) == [0, 1, 2]


def test_an_outcome_that_no_consumer_can_say_changes_nothing():
    """It is an error, and what was held is held."""
    dispatcher = with_consumer()
    dispatcher.offer(0, 3)
    with pytest.raises(Exception, match="expired is not legal"):
        dispatcher.settle(1, range(3), Outcome.EXPIRED)
    assert dispatcher.in_flight == 3


def test_reach_covers_what_was_read_early():
    """Delivered messages lie below the reach, though the position is lower."""
    priority_index = PriorityIndex()
    dispatcher = with_consumer(credit=1, priority_index=priority_index)
    attributes = HeaderAttributes(0, priority=bytes([4, 4, 4, 9]))
    priority_index.add(0, 4, attributes)
    dispatcher.offer(0, 4, attributes=attributes)
    assert (dispatcher.position, dispatcher.reach, dispatcher.floor) == (0, 4, 0)


def test_a_late_outcome_is_late_though_locks_are_off_by_then():
    """An outcome that a lock's end made late stays late."""
    dispatcher = with_consumer(policy=Policy(lock_ms=10))
    dispatcher.offer(0, 1, now=1_000)
    dispatcher.wake(11_000)
    dispatcher.policy = Policy()
    dispatcher.offer(0, 1, now=20_000)
    assert not dispatcher.settle(1, range(1), Outcome.ACCEPTED, delivered_at=1_000)
    assert dispatcher.in_flight == 1
    (settled,) = dispatcher.settle(1, range(1), Outcome.ACCEPTED, delivered_at=20_000)
    assert settled.final


def test_an_offer_without_what_is_wanted_is_caught():
    """Also where messages aren't plain: what waits and was asked for must be in the batch."""
    dispatcher = with_consumer()
    dispatcher.offer(0, 3, attributes=HeaderAttributes(0, priority=bytes([9, 4, 4])))
    dispatcher.settle(1, range(1), Outcome.RELEASED)
    assert dispatcher.wanted(3) == 0
    with pytest.raises(AssertionError, match="0 is owed, offered from 1 on"):
        dispatcher.offer(1, 3)


@pytest.mark.parametrize("committed", [True, False])
def test_a_group_waits_for_the_transaction_of_a_consumer_that_went(committed):
    """The next consumer gets the group's other messages when the transaction has ended, behind
    those that a rollback gives back; a message of another group doesn't wait."""
    dispatcher = with_consumer(credit=2)
    attributes = grouped(0, [7, 7, 7, 8])
    dispatcher.offer(0, 2, attributes=attributes)
    dispatcher.retire(1, range(1), -5)
    dispatcher.detach(1)
    dispatcher.attach(2)
    dispatcher.credit(2, 9)
    assert served(dispatcher, attributes, 4) == [3]
    outcome = Outcome.ACCEPTED if committed else Outcome.MODIFIED
    dispatcher.settle(-5, range(1), outcome, failed=not committed)
    dispatcher.forget(-5)
    assert served(dispatcher, attributes, 4) == ([1, 2] if committed else [0, 1, 2])
