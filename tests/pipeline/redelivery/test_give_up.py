"""A message that goes back to its origin is settled at once, also where copies are kept of messages
given up for other reasons."""

from array import array

from distributary.pipeline.dispatch.dispatcher import NOBODY, DeadLetter, Dispatcher, Settled
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import Backlog, Overflow, Policy

POLICY = Policy(backlog=Backlog(overflow=Overflow.DEAD_LETTER))


def dead_lettering() -> Dispatcher:
    """Ten messages: 0 to 2 held, 3 given back, the others unread."""
    dispatcher = Dispatcher(0, policy=POLICY, dead_letters=True)
    dispatcher.attach(1)
    dispatcher.credit(1, 4)
    dispatcher.offer(0, 10)
    dispatcher.settle(1, range(3, 4), Outcome.RELEASED)
    return dispatcher


def test_nobody_keeps_a_copy_of_what_goes_back() -> None:
    """Waiting and unread messages are gone; held ones are not touched."""
    dispatcher = dead_lettering()
    effects = dispatcher.give_up(range(2, 6), Reason.REDRIVEN)
    assert all(isinstance(one, Settled) and one.final for one in effects)
    assert {one.outcome for one in effects if isinstance(one, Settled)} == {Outcome.REDRIVEN}
    assert sorted(sequence for one in effects for sequence in one.run) == [3, 4, 5]
    assert {one.consumer for one in effects} == {NOBODY}
    assert dispatcher.outstanding == 3
    dispatcher.credit(1, 10)
    assert [list(one.run) for one in dispatcher.offer(0, 10)] == [[6, 7, 8, 9]]


def test_copies_are_kept_of_all_else() -> None:
    effects = dead_lettering().give_up(array("q", [3, 5]), Reason.OVERFLOW)
    assert all(isinstance(one, DeadLetter) for one in effects)
