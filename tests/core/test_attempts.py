"""Failed attempts of runs of messages, where nobody knows how deliveries ended before a start."""

from array import array

from pipeline.dispatch import Dispatcher
from pipeline.effects import Settled
from pipeline.outcome import Outcome
from pipeline.traits import Traits


def test_what_is_in_doubt_may_all_have_expired() -> None:
    """Then nothing is left to deliver, and nothing to be said of its attempts."""
    dispatcher = Dispatcher(0, doubtful_below=3)
    dispatcher.attach(1)
    dispatcher.credit(1, 10)
    traits = Traits(0, expires_at=array("q", [5] * 3).tobytes())
    effects = dispatcher.offer(0, 3, now=9, traits=traits)
    assert [(type(one), getattr(one, "outcome", None)) for one in effects] == [
        (Settled, Outcome.EXPIRED)
    ]
    assert dispatcher.outstanding == 0
