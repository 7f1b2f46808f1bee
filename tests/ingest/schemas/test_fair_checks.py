"""A publisher that floods a topic with a schema, or whose messages can't be checked, doesn't keep
the others from publishing."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway, until
from gateway_schemas import checkers, schema, sent, why
from proton import Delivery

Make = Callable[..., Gateway]


def test_a_quiet_publisher_is_not_held_up_by_one_that_floods(
    own_gateway: Make, connect: Connect
) -> None:
    """While the process that checks stands still, one connection sends all that it may; another
    one's message has room, and is checked in its turn: behind two runs that the process has and one
    more of the other's."""
    given = {"waiting_bytes_max": 100_000, "check_ms_max": 60_000}
    gateway = own_gateway({"schemas": given}).start()
    peer = connect(port=gateway.port)
    Manager(peer).done("UPDATE", "schema", "orders", **schema(validate="refuse"))
    sent(peer, "orders", b'{"id": 0}')
    [pid] = checkers(gateway)
    os.kill(pid, signal.SIGSTOP)
    consumer = peer.shared_durable("orders", "orders|global")
    flooding = connect(port=gateway.port)
    link = flooding.sender("orders")
    flooding.until(lambda: link.link.credit >= 30, "credit")
    body = b'{"id": 1, "note": "%s"}' % (b"x" * 5_000)
    flood = []
    for _ in range(30):
        flood.append(link.send(encoded(body)))
        flooding.heard()  # each is a run of its own
    quiet = connect(port=gateway.port)
    seldom = quiet.sender("orders")
    quiet.until(lambda: seldom.link.credit > 0, "credit")
    one = seldom.send(encoded(b'{"id": 2, "note": "%s"}' % (b"y" * 5_000)))
    quiet.heard()
    os.kill(pid, signal.SIGCONT)
    assert seldom.outcome(one) == Delivery.ACCEPTED
    outcomes = [link.outcome(each) for each in flood]
    taken = outcomes.count(Delivery.ACCEPTED)
    assert 8 <= taken <= 10
    limited = [each for each in flood if each.remote_state == Delivery.REJECTED]
    assert len(limited) == len(flood) - taken
    assert "schemas.waiting_bytes_max" in why(limited[0])
    came = [b"yyy" in got.data for got in consumer.take(taken + 1)]
    assert came.index(True) <= 3


@contextmanager
def killed(gateway: Gateway) -> Iterator[None]:
    """Each process that checks is killed as soon as it is there."""
    end = Event()

    def kill() -> None:
        while not end.wait(0.002):
            for pid in checkers(gateway):
                os.kill(pid, signal.SIGKILL)

    thread = Thread(target=kill)
    thread.start()
    until(lambda: not checkers(gateway), "the first one to be gone")
    try:
        yield
    finally:
        end.set()
        thread.join()


def test_a_run_that_fails_again_and_again_is_given_up(own_gateway: Make, connect: Connect) -> None:
    """Each failure may take `schemas.check_ms_max`, and others wait: after some of them the rest of
    the run is rejected without a try."""
    gateway = own_gateway().start()
    peer = connect(port=gateway.port)
    Manager(peer).done("UPDATE", "schema", "orders", **schema(validate="refuse"))
    with killed(gateway):
        outcomes = sent(peer, "orders", *[b'{"id": 1}'] * 12)
    assert {one.remote_state for one in outcomes} == {Delivery.REJECTED}
    assert "of those sent with it couldn't be, either" in why(outcomes[-1])
    assert len(gateway.events("schemas.check_failed")) <= 6
    until(
        lambda: sent(peer, "orders", b'{"id": 1}')[0].remote_state == Delivery.ACCEPTED,
        "a process that lives",
    )
