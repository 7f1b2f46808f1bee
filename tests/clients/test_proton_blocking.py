"""Proton's `BlockingConnection`, used as people use it, against a real gateway."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from gateway_process import PATIENCE, Gateway
from proton import ConnectionException, Message, SymbolList, Terminus, Timeout, symbol
from proton.reactor import AtMostOnce, Copy, DurableSubscription, LinkOption, Selector
from proton.utils import BlockingConnection, LinkDetached, SendException, SyncRequestResponse

from distributary.ingest.security.users import hashed

Connect = Callable[..., BlockingConnection]
#: Seconds; what should be there comes at once.
SOON = PATIENCE


class Capabilities(LinkOption):
    """Capabilities of a source or a target: `shared`, `global`, `queue`..."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def apply(self, link: object) -> None:
        terminus = link.source if link.is_receiver else link.target
        terminus.capabilities.put_object(SymbolList(self.words))


@pytest.fixture
def connect(gateway: Gateway) -> Iterator[Connect]:
    """Makes connections that are closed at the end of the test."""
    with ExitStack() as ends:

        def new(container_id: str | None = None, **options: object) -> BlockingConnection:
            url = options.pop("url", f"127.0.0.1:{gateway.port}")
            made = BlockingConnection(
                url, timeout=SOON, container=None, **(options | _named(container_id))
            )
            ends.callback(made.close)
            return made

        yield new


def _named(container_id: str | None) -> dict[str, object]:
    return {"container_id": container_id} if container_id else {}


def persistent(body: object) -> Message:
    return Message(body=body, durable=True)


def bodies(receiver: object, count: int) -> list[object]:
    """The next messages, each of them accepted."""
    taken = []
    for _ in range(count):
        taken.append(receiver.receive(timeout=SOON).body)
        receiver.accept()
    return taken


def test_what_is_sent_is_received(connect: Connect, topic: str) -> None:
    """The shortest program: send returns when the message is on the disk."""
    connection = connect()
    receiver = connection.create_receiver(topic)
    connection.create_sender(topic).send(persistent({"pizza": 1}))
    assert bodies(receiver, 1) == [{"pizza": 1}]


def test_receive_gives_up_and_tries_again(connect: Connect, topic: str) -> None:
    """A receive that found nothing costs no message."""
    connection = connect()
    receiver = connection.create_receiver(topic)
    with pytest.raises(Timeout):
        receiver.receive(timeout=0.1)
    connection.create_sender(topic).send(persistent("late"))
    assert bodies(receiver, 1) == ["late"]


def test_release_brings_a_message_again(connect: Connect, topic: str) -> None:
    """`release()` is modified and counts as a failure here, `release(delivered=False)` is
    released and leaves the count."""
    connection = connect(topic)
    receiver = connection.create_receiver(topic, name="held", options=DurableSubscription())
    connection.create_sender(topic).send(persistent("again"))
    counts = []
    for delivered in (False, True):
        counts.append(receiver.receive(timeout=SOON).delivery_count)
        receiver.release(delivered=delivered)
    counts.append(receiver.receive(timeout=SOON).delivery_count)
    receiver.reject()
    assert counts[:2] == [0, 0]
    with pytest.raises(Timeout):
        receiver.receive(timeout=0.1)


def test_a_durable_subscription_survives(connect: Connect, gateway: Gateway, topic: str) -> None:
    """`DurableSubscription` and a name make one; it keeps what comes while its consumer, its
    connection and the gateway are gone."""
    first = connect(topic)
    first.create_receiver(topic, name="kept", options=DurableSubscription())
    first.close()
    other = connect()
    other.create_sender(topic).send(persistent("while away"))
    other.close()
    gateway.kill()
    gateway.start()
    receiver = connect(topic).create_receiver(topic, name="kept", options=DurableSubscription())
    assert bodies(receiver, 1) == ["while away"]


def test_close_ends_a_durable_subscription(connect: Connect, topic: str) -> None:
    """`receiver.close()` unsubscribes."""
    connection = connect(topic)
    sender = connection.create_sender(topic)
    connection.create_receiver(topic, name="over", options=DurableSubscription()).close()
    sender.send(persistent("missed"))
    receiver = connection.create_receiver(topic, name="over", options=DurableSubscription())
    sender.send(persistent("seen"))
    assert bodies(receiver, 1) == ["seen"]


def test_copy_on_a_topic_is_no_browser(connect: Connect, topic: str) -> None:
    """Each subscription has its copy anyway: what is accepted doesn't come again."""
    connection = connect(topic)
    options = [DurableSubscription(), Copy()]
    receiver = connection.create_receiver(topic, name="copies", options=options)
    connection.create_sender(topic).send(persistent("once"))
    assert bodies(receiver, 1) == ["once"]
    connection.close()
    again = connect(topic).create_receiver(topic, name="copies", options=options)
    with pytest.raises(Timeout):
        again.receive(timeout=0.1)


def test_a_shared_subscription_serves_in_turn(connect: Connect, topic: str) -> None:
    """Two processes that name one global subscription share its messages."""
    options = [DurableSubscription(), Capabilities("topic", "shared", "global")]
    workers = [
        connect().create_receiver(topic, name="pool|global", options=options, credit=10)
        for _ in range(2)
    ]
    sender = connect().create_sender(topic)
    for number in range(6):
        sender.send(persistent(number))
    taken = [bodies(worker, 3) for worker in workers]
    assert sorted(taken) == [[0, 2, 4], [1, 3, 5]]


def test_a_selector_chooses(connect: Connect, topic: str) -> None:
    """`Selector` on a durable subscription: what doesn't match is never owed."""
    connection = connect(topic)
    options = [DurableSubscription(), Selector("colour = 'red'")]
    receiver = connection.create_receiver(topic, name="red", options=options, credit=10)
    sender = connection.create_sender(topic)
    for body, colour in enumerate(("red", "blue", "red")):
        sender.send(Message(body=body, durable=True, properties={"colour": colour}))
    assert bodies(receiver, 2) == [0, 2]
    with pytest.raises(Timeout):
        receiver.receive(timeout=0.1)


def test_a_selector_that_can_not_be_read_is_refused(connect: Connect, topic: str) -> None:
    """In a sentence, and the connection goes on."""
    connection = connect()
    with pytest.raises(LinkDetached, match="selector") as refused:
        connection.create_receiver(topic, options=Selector("colour = = 'red'"))
    assert refused.value.condition == "amqp:invalid-field"
    # Another name: Proton writes this attach in front of the detach of the refused link.
    receiver = connection.create_receiver(topic, name="without")
    connection.create_sender(topic).send(persistent("still here"))
    assert bodies(receiver, 1) == ["still here"]


def test_the_relay_sends_where_each_message_says(connect: Connect, topic: str) -> None:
    """A sender without an address."""
    connection = connect()
    receivers = [connection.create_receiver(f"{topic}-{colour}") for colour in ("red", "blue")]
    relay = connection.create_sender(None)
    for colour in ("red", "blue"):
        relay.send(Message(address=f"{topic}-{colour}", body=colour, durable=True))
    assert [bodies(receiver, 1) for receiver in receivers] == [["red"], ["blue"]]


def test_what_goes_nowhere_is_an_exception(connect: Connect) -> None:
    """A message without an address on the relay is rejected, and the next one is sent."""
    relay = connect().create_sender(None)
    with pytest.raises(SendException):
        relay.send(persistent("lost"))
    relay.send(Message(address="somewhere", durable=True))


def test_at_most_once(connect: Connect, topic: str) -> None:
    """Presettled both ways."""
    connection = connect()
    receiver = connection.create_receiver(topic, options=AtMostOnce())
    connection.create_sender(topic, options=AtMostOnce()).send(persistent("once"))
    assert receiver.receive(timeout=SOON).body == "once"
    assert not receiver.fetcher.unsettled


def test_a_topic_that_can_not_be_is_refused(connect: Connect) -> None:
    """Not only for senders and receivers of topics: the reason reaches the application."""
    for make in ("create_sender", "create_receiver"):
        with pytest.raises(LinkDetached) as refused:
            getattr(connect(), make)("$catalog")
        assert refused.value.condition == "amqp:not-found"


def test_a_container_id_in_use_is_refused(connect: Connect) -> None:
    """The second connection that wants it alone hears why; one that doesn't is welcome."""
    connect("taken")
    connect("taken")
    sole = [symbol("sole-connection-for-container")]
    with pytest.raises(ConnectionException, match="container"):
        connect("taken", desired_capabilities=sole)


def test_a_message_of_five_megabytes(connect: Connect, topic: str) -> None:
    """It comes as it was."""
    connection = connect()
    receiver = connection.create_receiver(topic)
    body = bytes(range(256)) * 20_000
    connection.create_sender(topic).send(Message(body=body, durable=True, inferred=True))
    assert bytes(receiver.receive(timeout=SOON).body) == body


def test_users_and_passwords(connect: Connect, tmp_path: Path, topic: str) -> None:
    """In the address or beside it; a wrong one is an exception."""
    users = tmp_path / "users.toml"
    users.write_text(f'ann = "{hashed("secret")}"\n')
    security = {"security": {"users": str(users), "anonymous": False}}
    plain = {"allowed_mechs": "PLAIN", "allow_insecure_mechs": True}
    with Gateway(tmp_path / "guarded", security) as guarded:
        at = f"127.0.0.1:{guarded.port}"
        connection = connect(url=f"ann:secret@{at}", **plain)
        receiver = connection.create_receiver(topic)
        connection.create_sender(topic).send(persistent("hello"))
        assert bodies(receiver, 1) == ["hello"]
        for user in ({"user": "ann", "password": "guess"}, {}):
            with pytest.raises(ConnectionException):
                connect(url=at, **(plain if user else {}), **user)
        connection.close()


def test_what_the_answer_says(connect: Connect, topic: str) -> None:
    """The source and the target as they were asked for."""
    connection = connect(topic)
    options = [DurableSubscription(), Capabilities("topic", "shared")]
    source = connection.create_receiver(topic, name="said", options=options).link.remote_source
    assert (source.address, source.durability) == (topic, Terminus.DELIVERIES)
    assert source.expiry_policy == Terminus.EXPIRE_NEVER
    sender = connection.create_sender(topic)
    assert sender.link.remote_target.address == topic
    assert sender.link.remote_max_message_size == 16_777_216


def test_a_queue_keeps_messages_for_whoever_comes(connect: Connect, topic: str) -> None:
    """By its address' prefix, or by a capability; consumers share it."""
    connection = connect()
    connection.create_sender(f"queue://{topic}").send(persistent("a"))
    connection.create_sender(topic, options=Capabilities("queue")).send(persistent("b"))
    one = connect().create_receiver(f"queue://{topic}")
    assert bodies(one, 1) == ["a"]
    one.close()
    assert bodies(connect().create_receiver(topic, options=Capabilities("queue")), 1) == ["b"]


def test_copy_on_a_queue_is_a_browser(connect: Connect, topic: str) -> None:
    """It sees what is there, again and again."""
    connection = connect()
    sender = connection.create_sender(f"queue://{topic}")
    for body in ("a", "b"):
        sender.send(persistent(body))
    for _ in range(2):
        browser = connect().create_receiver(f"queue://{topic}", options=Copy(), credit=10)
        assert [browser.receive(timeout=SOON).body for _ in range(2)] == ["a", "b"]
        browser.close()
    assert bodies(connection.create_receiver(f"queue://{topic}"), 2) == ["a", "b"]


def test_request_and_reply(connect: Connect, gateway: Gateway, topic: str) -> None:
    """Proton's `SyncRequestResponse`: a dynamic receiver for the answers."""
    server = connect()
    requests = server.create_receiver(f"queue://{topic}", credit=1)
    answers = server.create_sender(None)

    def serve() -> None:
        for _ in range(2):
            request = requests.receive(timeout=SOON)
            requests.accept()
            answer = Message(address=request.reply_to, body=request.body.upper())
            answer.correlation_id = request.correlation_id
            answers.send(answer)

    serving = threading.Thread(target=serve)
    serving.start()
    asking = SyncRequestResponse(connect(), f"queue://{topic}")
    assert asking.reply_to.startswith("temp-queue://")
    assert [asking.call(Message(body=word)).body for word in ("one", "two")] == ["ONE", "TWO"]
    serving.join()


def test_a_temporary_queue_is_its_connections_own(connect: Connect) -> None:
    """Others may send to it, and hear that it is locked when they mean to consume."""
    receiver = connect().create_receiver(None, dynamic=True)
    address = receiver.link.remote_source.address
    stranger = connect()
    stranger.create_sender(address).send(persistent("hello"))
    assert bodies(receiver, 1) == ["hello"]
    with pytest.raises(LinkDetached) as refused:
        stranger.create_receiver(address)
    assert refused.value.condition == "amqp:resource-locked"
