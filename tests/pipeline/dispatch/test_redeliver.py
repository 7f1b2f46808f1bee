"""Messages that wait after a failure, when a consumer demands them."""

from array import array

from distributary.pipeline.dispatch.dispatcher import Deliver, Dispatcher
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.policy import Policy

HOUR = 3_600_000_000


def delivered(effects: list[object]) -> list[tuple[int, int]]:
    """Sequence and failed attempts of each delivery."""
    found = [one for one in effects if isinstance(one, Deliver)]
    return [(sequence, one.delivery_count) for one in found for sequence in one.run]


def test_what_failed_goes_at_once() -> None:
    """With its count and before what comes after it; what its own header delays still waits, and
    what fails again waits again."""
    dispatcher = Dispatcher(0, policy=Policy(redelivery_delay_ms=60_000))
    dispatcher.attach(1)
    dispatcher.credit(1, 9)
    times = array("q", [0, 0, HOUR]).tobytes()
    attributes = HeaderAttributes(0, deliver_at=times)
    dispatcher.offer(0, 3, attributes=attributes)
    dispatcher.settle(1, range(2), Outcome.MODIFIED, failed=True)
    assert dispatcher.wanted(3) is None
    dispatcher.redeliver()
    assert dispatcher.wanted(3) == 0
    assert delivered(dispatcher.offer(0, 3, attributes=attributes)) == [(0, 1), (1, 1)]
    assert dispatcher.wanted(3) is None
    assert dispatcher.next_due == HOUR
    dispatcher.settle(1, range(1), Outcome.MODIFIED, failed=True)
    assert dispatcher.wanted(3) is None
