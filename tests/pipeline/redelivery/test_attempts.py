"""Failed attempts of runs of messages, with unknown ends of deliveries before a start."""

from array import array

from distributary.pipeline.dispatch.dispatcher import Dispatcher
from distributary.pipeline.dispatch.effects import Settled
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.redelivery.attempts import Attempts


def test_what_is_in_doubt_may_all_have_expired() -> None:
    """Then nothing is left to deliver, and nothing to be said of its attempts."""
    dispatcher = Dispatcher(0, attempts=Attempts({}, 3))
    dispatcher.attach(1)
    dispatcher.credit(1, 10)
    attributes = HeaderAttributes(0, expires_at=array("q", [5] * 3).tobytes())
    effects = dispatcher.offer(0, 3, now=9, attributes=attributes)
    assert [(type(one), getattr(one, "outcome", None)) for one in effects] == [
        (Settled, Outcome.EXPIRED)
    ]
    assert dispatcher.outstanding == 0
