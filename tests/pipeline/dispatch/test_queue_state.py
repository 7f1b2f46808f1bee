"""Moves from a place where a message isn't, or to one where it is already, are errors at once."""

import ast
from pathlib import Path

import pytest

from distributary.pipeline.dispatch.effects import NOBODY, DeadLetter, Effect, Settled
from distributary.pipeline.dispatch.queue_parts import QueueParts
from distributary.pipeline.dispatch.queue_state import QueueState
from distributary.pipeline.errors import IllegalTransition
from distributary.pipeline.model.header_attributes import PRIORITY
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import Policy
from distributary.pipeline.model.transitions import FINAL, TRANSITIONS, Event, State
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.sequence_set import SequenceSet


def queue(*, dead_letters: bool = False, consumers: int = 1) -> QueueState:
    """A queue from sequence 10 on, with consumers that take 100 each."""
    policy = Policy()
    made = QueueState(10, SequenceSet(), Attempts({}, 0), policy, None, dead_letters=dead_letters)
    for consumer in range(1, consumers + 1):
        made.join(consumer, 0, None)
        made.set_credit(consumer, 100)
    return made


def test_nobody_else_sees_the_parts() -> None:
    """Of a queue state there are moves and questions only: no other file of the package names a
    part of it."""
    private = {name for name in QueueParts.__slots__ if name.startswith("_")}
    assert set(QueueParts.__slots__) - private == {"candidates", "report"}
    package = Path(__file__).parents[3] / "pipeline"
    bad = [
        f"{path.name}:{node.lineno} reads {ast.unparse(node)}"
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in private
        if ast.unparse(node.value).rpartition(".")[2] in ("state", "_state")
    ]
    assert not bad


def test_what_was_read_is_not_read_again() -> None:
    """Neither from the position on nor above it."""
    messages = queue()
    effects: list[Effect] = []
    assert messages.deliver_unread(range(10, 20), 0, 0, effects) == 10
    with pytest.raises(AssertionError, match="was read"):
        messages.deliver_unread(range(15, 25), 0, 0, effects)
    messages.begin_reading(range(30, 40))
    with pytest.raises(AssertionError, match="was read"):
        messages.begin_reading(range(39, 45))
    with pytest.raises(AssertionError, match="falls"):
        messages.pass_to(12)


def test_what_is_not_ready_is_not_delivered_as_such() -> None:
    """A message that a consumer holds is in no pool."""
    messages = queue(consumers=2)
    effects: list[Effect] = []
    messages.deliver_unread(range(10, 20), 0, 0, effects)
    with pytest.raises(AssertionError, match="weren't in flight"):
        messages.deliver_ready(range(10, 12), 0, 0, effects)
    messages.begin_reading(range(30, 40))
    with pytest.raises(AssertionError, match="were ready"):
        messages.deliver_ready(range(30, 32), 0, 0, effects)
    with pytest.raises(AssertionError, match="didn't wait"):
        messages.take_ready(range(10, 12), PRIORITY, None)


def test_what_is_settled_in_part_is_no_run() -> None:
    """A run goes as a whole, or something else has it already."""
    messages = queue()
    messages.deliver_unread(range(10, 20), 0, 0, [])
    assert messages.accept(1, range(10, 12), 0)
    with pytest.raises(AssertionError, match="only 8 were read"):
        messages.final(1, range(10, 20), Outcome.ACCEPTED)


@pytest.mark.parametrize("event", Event)
def test_deliveries_end_where_the_table_says(event: Event) -> None:
    """For each event that a delivery may end with: back, done or given up, and nothing else."""
    messages = queue()
    messages.deliver_unread(range(10, 20), 0, 0, [])
    if event not in TRANSITIONS[State.ACQUIRED]:
        with pytest.raises(IllegalTransition):
            messages.settle(1, range(10, 20), event, 0, 0)
        return
    effects = messages.settle(1, range(10, 20), event, 0, 0)
    state = TRANSITIONS[State.ACQUIRED][event]
    assert all(isinstance(one, Settled) and one.final is (state in FINAL) for one in effects)
    assert messages.report.outstanding() == (0 if state in FINAL else 10)
    assert messages.report.ready == (10 if state is State.AVAILABLE else 0)
    assert not messages.report.in_flight


def test_what_a_consumer_has_is_not_handed_out_again() -> None:
    """Neither to it nor, by a transaction that hasn't got it, back to it."""
    messages = queue()
    messages.deliver_unread(range(10, 20), 0, 0, [])
    with pytest.raises(AssertionError, match="weren't in flight"):
        messages.hand([(1, range(19, 25))], 0, 0, [], again=True)
    assert messages.retire(1, range(10, 14), -1, 0) == [range(10, 14)]
    assert messages.restore(-1, range(10, 12), 1, 0)
    with pytest.raises(AssertionError, match="it had 1"):
        messages.restore(-1, range(11, 13), 1, 0)


def test_what_waits_does_not_begin_to_wait() -> None:
    """In a pool, for a time, or for its copy."""
    messages = queue(dead_letters=True)
    messages.begin_reading(range(10, 40))
    messages.make_ready(range(10, 20), None)
    with pytest.raises(AssertionError, match="didn't wait"):
        messages.make_ready(range(19, 25), None)
    messages.hold_back(range(25, 30), 1)
    with pytest.raises(AssertionError, match="weren't delayed"):
        messages.hold_back(range(29, 31), 1)
    messages.drop(range(31, 35), Reason.EXHAUSTED)
    with pytest.raises(AssertionError, match="weren't given up"):
        messages.drop(range(34, 36), Reason.EXHAUSTED)


def test_what_is_dropped_waits_for_its_copy() -> None:
    """Given up, owed until the copy is kept, and in no other place."""
    messages = queue(dead_letters=True)
    messages.begin_reading(range(10, 20))
    [info] = messages.drop(range(10, 20), Reason.EXHAUSTED)
    assert info == DeadLetter(NOBODY, range(10, 20), Reason.EXHAUSTED, 0)
    report = messages.report
    assert (report.dead_lettering, report.outstanding(), report.ready) == (10, 10, 0)
    assert [one.final for one in messages.dead_lettered(range(10, 20))] == [True]
    assert not report.outstanding()
