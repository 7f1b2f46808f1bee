"""A page of the table that can't be read: what wants it waits and says so, all others go on, and
with the file as it was everything goes on where it stood. No restart is needed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway, until
from proton import Delivery
from test_backlog import TINY, all_of, committed, fill

Make = Callable[..., Gateway]

#: As in `test_backlog`, and asked again soon.
SETTINGS = TINY | {"delivery": TINY["delivery"] | {"page_retry_ms": 50}}
COUNT = 400
#: What is published first is delivered from memory: none of its rows is read from a file and kept.
LARGER = SETTINGS | {"delivery": SETTINGS["delivery"] | {"cache_bytes": 300_000}}


def message_files(gateway: Gateway) -> set[Path]:
    return set((gateway.home / "tables/topic_log").glob("record=message/*/*.parquet"))


@contextmanager
def damaged(files: set[Path]) -> Iterator[None]:
    """In all pages of these files a bit of each byte is flipped, whichever of them are read; then
    they are as they were."""
    before = {path: path.read_bytes() for path in files}
    for path, data in before.items():
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        path.write_bytes(data[:4] + bytes(byte ^ 1 for byte in data[4:footer]) + data[footer:])
    yield
    for path, data in before.items():
        path.write_bytes(data)


def test_only_what_wants_the_page_waits(own_gateway: Make, connect: Connect) -> None:
    """A flipped bit pauses the subscriptions of that topic, with an alarm; others are served, new
    messages are accepted, and when the page can be read again nothing is missing or twice."""
    gateway = own_gateway(SETTINGS).start()
    peer = connect("c", port=gateway.port)
    for name in ("rotten", "sound"):
        peer.leave(peer.durable(name, f"on-{name}"), closed=False)
    fill(gateway, connect, "rotten", 0, COUNT)
    files = message_files(gateway)
    fill(gateway, connect, "sound", 0, COUNT)
    manager = Manager(connect(port=gateway.port))
    with damaged(files):
        waiting = peer.durable("rotten", "on-rotten")
        waiting.link.flow(COUNT)
        peer.until(lambda: bool(gateway.events("messages.unreadable")), "the alarm")
        row = manager.done("READ", "subscription", "container/c/on-rotten")
        assert "can't be read" in row["unreadable"]
        assert manager.done("READ", "node", "self")["unreadable"] == 1
        assert all_of(peer.durable("sound", "on-sound"), COUNT) == list(range(COUNT))
        connect(port=gateway.port).sender("rotten").publish(f"{COUNT} new")
        alarm, *_ = gateway.events("messages.unreadable")  # one for each try
        assert alarm["topic"] == "rotten"
    assert all_of(waiting, COUNT + 1) == list(range(COUNT + 1))
    assert manager.done("READ", "subscription", "container/c/on-rotten")["unreadable"] is None
    assert gateway.events("messages.readable")
    gateway.stop()


def test_what_is_given_up_waits_for_its_copy(own_gateway: Make, connect: Connect) -> None:
    """Messages that were rejected while their page can't be read are owed until their copies are
    kept; others' dead letters don't wait for them."""
    gateway = own_gateway(LARGER).start()
    peer = connect("c", port=gateway.port)
    sender = peer.sender("queue://bad")
    sender.publish(*(f"{n} {'x' * 200}" for n in range(COUNT)))
    consumer = peer.receiver("queue://bad", capabilities=("queue",))
    taken = consumer.take(COUNT)
    until(lambda: committed(gateway) == COUNT, "all is in the table")
    peer.sender("other").publish(*("x" * 10_000 for _ in range(60)))
    until(lambda: committed(gateway) == COUNT + 60, "all of memory is of another topic")
    files = message_files(gateway)
    manager = Manager(connect(port=gateway.port))
    with damaged(files):
        consumer.settle(taken[:1], Delivery.REJECTED)
        peer.until(lambda: bool(gateway.events("messages.unreadable")), "the alarm")
        assert manager.done("READ", "queue", "bad")["outstanding"] >= COUNT - 1
        peer.sender("queue://good").publish("fresh")
        good = peer.receiver("queue://good", capabilities=("queue",))
        good.confirm(good.take(), Delivery.REJECTED)
        [letter] = peer.receiver("queue://DLQ.queue/good", capabilities=("queue",)).take()
        assert letter.body == "fresh"
    [letter] = peer.receiver("queue://DLQ.queue/bad", capabilities=("queue",)).take()
    assert str(letter.body).startswith("0 ")
    gateway.stop()


def test_a_page_that_is_waited_for_hinders_no_end(own_gateway: Make, connect: Connect) -> None:
    """A gateway that is stopped while a page can't be read ends as ever."""
    gateway = own_gateway(SETTINGS).start()
    peer = connect("c", port=gateway.port)
    peer.leave(peer.durable("rotten", "on-rotten"), closed=False)
    fill(gateway, connect, "rotten", 0, COUNT)
    with damaged(message_files(gateway)):
        peer.durable("rotten", "on-rotten").link.flow(COUNT)
        peer.until(lambda: bool(gateway.events("messages.unreadable")), "the alarm")
        gateway.stop()
    again = connect("c", port=gateway.start().port)
    assert all_of(again.durable("rotten", "on-rotten"), COUNT) == list(range(COUNT))
