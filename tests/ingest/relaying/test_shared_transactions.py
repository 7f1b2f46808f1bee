"""Transactions with work in several logs of a lake: all of it is done or none, whoever is lost.

The log that decides is `main` where it has a part, for that is the gateway's own here.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gateway_fleet import Fleet
from gateway_jms import QUEUE, Jms, source, text_of
from gateway_process import Gateway
from gateway_transactions import condition_of, transacted

Make = Callable[..., Gateway]


class Work:
    """A client's session at the gateway of `main`: a coin was taken from the queue `orders.from`,
    which is the other log's, and goes to the queue `own.to`."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        with Jms(fleet.orders.port) as there:
            there.publish("orders.from", "coin", capabilities=QUEUE)
        self.jms = Jms(fleet.main.port)
        self.session = session = transacted(self.jms)
        self.to = session.producer("own.to", QUEUE)
        session.consumer("from", source("orders.from", QUEUE), 1)
        [self.coin] = session.transfers(1)

    def do(self) -> None:
        self.session.retire(self.coin)
        [posted] = self.session.post(self.to, "coin")
        assert condition_of(self.session.answer(posted)) == ""


@contextmanager
def working(fleet: Fleet) -> Iterator[Work]:
    work = Work(fleet)
    with work.jms:
        yield work


def coins(fleet: Fleet) -> Counter[str]:
    """What lies in both queues, by their owners."""
    found: Counter[str] = Counter()
    for gateway, queue in ((fleet.orders, "orders.from"), (fleet.main, "own.to")):
        with Jms(gateway.port) as jms:
            session = transacted(jms)
            handle = session.consumer("all", source(queue, QUEUE), 0)
            jms.credit(10, handle=handle, channel=session.channel, drain=True)
            while (one := session.read()).kind == "transfer":
                assert text_of(one.payload) == "coin"
                found[queue] += 1
            assert session.roll_back() == ""
    return found


def test_a_commit_is_one_in_both_logs(fleet: Fleet) -> None:
    with working(fleet) as work:
        work.do()
        assert coins(fleet) == {}
        assert work.session.commit() == ""
        assert coins(fleet) == {"own.to": 1}


def test_a_rollback_undoes_it_in_both(fleet: Fleet) -> None:
    with working(fleet) as work:
        work.do()
        assert work.session.roll_back() == ""
        assert coins(fleet) == {"orders.from": 1}
