"""Messages that a browser sees, against the dispatcher's own model: all that could be delivered
when it began to look, and those that came later, whatever consumers do meanwhile.
"""

from bisect import bisect_left

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from test_dispatcher import NEW, RETURNED, DispatcherMachine, dealt_by

from distributary.pipeline.dispatch.dispatcher import Dispatcher
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.sequence_set import SequenceSet


class ViewMachine(DispatcherMachine):
    """Views are taken at any moment of any history and read at any later one. That consumers don't
    notice is what the invariants of the dispatcher say: its model knows of no views."""

    def __init__(self):
        super().__init__()
        self.view, self.expected, self.head_then = None, [], 0

    @rule(credit=st.integers(1, 40))
    def look(self, credit):
        """A browser comes."""
        self.view, self.head_then = self.real.view(), self.head
        available = self.model.in_place(NEW, RETURNED)
        self.expected = [(0, one, self.model.failures[one]) for one in available]
        self.view.attach(0)
        self.view.credit(0, credit)
        assert self.view.outstanding == len(self.model.in_place(RETURNED))
        assert self.view.in_flight == 0

    @precondition(lambda self: self.view)
    @rule(settled=st.booleans())
    def read(self, settled):
        """It reads on, a few at a time or all at once, and sees all that it should."""
        later = [one for one in self.topic() if one >= self.head_then]
        expected = self.expected + [(0, one, 0) for one in later]
        got, topic = [], self.topic()
        while len(got) < len(expected):
            self.view.credit(0, self.view.room or 3)
            wanted = self.view.wanted()
            first = stop = topic[bisect_left(topic, wanted)]
            while stop in self.model.places:
                stop += 1
            dealt = self.view.offer(first, stop)
            got += dealt_by(dealt)
            for one in dealt if settled else ():
                self.view.settle(0, one.run, Outcome.ACCEPTED)
        assert got == expected
        assert not settled or self.view.outstanding == 0
        self.view = None


TestViewMachine = ViewMachine.TestCase
TestViewMachine.settings = settings(max_examples=150, stateful_step_count=50)


def test_a_view_is_apart():
    """A message read and settled in a view is neither read nor settled for consumers, and the other
    way round."""
    dispatcher = Dispatcher(10, SequenceSet([range(12, 14)]), attempts=Attempts({11: 2}, 11))
    view = dispatcher.view()
    dispatcher.attach(1)
    dispatcher.credit(1, 2)
    own = dealt_by(dispatcher.offer(10, 16))
    assert own == [(1, 10, 1), (1, 11, 2)]
    view.attach(7)
    view.credit(7, 9)
    seen = view.offer(10, 16)
    assert dealt_by(seen) == [(7, 10, 1), (7, 11, 2), (7, 14, 0), (7, 15, 0)]
    for one in seen:
        view.settle(7, one.run, Outcome.MODIFIED, failed=True)
    dispatcher.credit(1, 9)
    assert dealt_by(dispatcher.offer(12, 16)) == [(1, 14, 0), (1, 15, 0)]
    assert (dispatcher.floor, dispatcher.in_flight) == (10, 4)
    assert not dispatcher.view().outstanding
