"""The Qpid JMS client's connection, frame by frame: its open, links that are refused, silence."""

from collections.abc import Callable, Iterator

import pytest
from gateway_fields import make
from gateway_frames import AMQP_HEADER, EMPTY_FRAME, Raw, frame_of
from gateway_jms import QUEUE, Jms, consumer, lookup, producer, source
from gateway_process import Gateway, Settings
from proton import symbol

pytestmark = pytest.mark.usefixtures("unharmed")


def test_the_open_offers_what_clients_look_for(gateway: Gateway, topic: str) -> None:
    """Anonymous producers, delays and shared subscriptions, and one connection for each container;
    a limit for frames and for silence; nothing says that the open is refused."""
    with Jms(gateway.port, topic) as jms:
        offered = jms.opened["offered-capabilities"]
        assert set(offered) == {
            "ANONYMOUS-RELAY",
            "DELAYED_DELIVERY",
            "SHARED-SUBS",
            "sole-connection-for-container",
        }
        assert jms.opened["max-frame-size"] == 131_072
        assert jms.opened["idle-time-out"] == 30_000
        assert jms.opened["properties"] == {symbol("product"): "Distributary"}


def test_what_a_client_desires_changes_nothing(gateway: Gateway, topic: str) -> None:
    """A client that desires nothing is offered the same."""
    with Jms(gateway.port, topic) as jms:
        offered = jms.opened["offered-capabilities"]
    with Raw(gateway.port, hello=AMQP_HEADER + frame_of("open", container_id=topic)) as raw:
        assert raw.read()["offered-capabilities"] == offered


def test_a_client_id_in_use_is_refused_and_free_again_afterwards(
    gateway: Gateway, topic: str
) -> None:
    """An open that says so in its properties, then a close with the field's name: that is how the
    client knows an InvalidClientIDException."""
    with Jms(gateway.port, topic) as first:
        with Jms(gateway.port, topic, opened=False) as second:
            refused, close = second.expect("open", "close")
            assert refused["properties"] == {symbol("amqp:connection-establishment-failed"): True}
            error = close["error"]
            assert error["condition"] == "amqp:invalid-field"
            assert error["info"] == {symbol("invalid-field"): symbol("container-id")}
            assert topic in error["description"]
            second.send(frame_of("close"))
            assert second.rest() == b""
        first.send(frame_of("close"))
        first.expect("close")
    with Jms(gateway.port, topic):
        pass


def test_who_doesnt_want_a_container_alone_shares_it(gateway: Gateway, topic: str) -> None:
    """Two connections without the capability bear one id; one that desires it is refused while
    they are there, and they are refused while it is. Each scope says what the two may do: the
    container's shared subscription has two consumers, its exclusive one is locked."""
    hello = AMQP_HEADER + frame_of("open", container_id=topic)
    with Jms(gateway.port, topic, sole=False) as one, Jms(gateway.port, topic, sole=False) as two:
        shared = consumer("S", source(topic, ("topic", "shared"), durable=True))
        for jms in (one, two):
            jms.send(shared)
            assert jms.expect("attach")[0]["source"] is not None
        exclusive = consumer("E", source(topic, ("topic",), durable=True), handle=1)
        one.send(exclusive)
        assert one.expect("attach")[0]["source"] is not None
        two.send(exclusive)
        attach, detach = two.expect("attach", "detach")
        assert (attach["source"], detach.error) == (None, "amqp:resource-locked")
        two.detach(closed=True, handle=1)
        with Jms(gateway.port, topic, opened=False) as sole:
            _, close = sole.expect("open", "close")
            assert close["error"]["info"] == {symbol("invalid-field"): symbol("container-id")}
            assert "for itself alone" in close["error"]["description"]
            sole.send(frame_of("close"))
        for jms in (one, two):
            jms.send(frame_of("close"))
            jms.expect("close")
    with Jms(gateway.port, topic), Raw(gateway.port, hello=hello) as late:
        assert [late.read().kind, late.read().kind] == ["open", "close"]


REFUSED: dict[str, tuple[bytes, str, str]] = {
    "a consumer of an unknown subscription": (lookup("nobody"), "source", "amqp:not-found"),
    "a consumer of a temporary topic that isn't": (
        consumer("c", source("temp-topic://x", ("temporary-topic",))), "source", "amqp:not-found",
    ),
    "a consumer of what has no name": (consumer("c", source("")), "source", "amqp:not-found"),
    "a queue that is said to be a topic": (
        consumer("c", source("topic://t", QUEUE)), "source", "amqp:invalid-field",
    ),
    "a producer of what has no name": (producer(""), "target", "amqp:not-found"),
    "a producer of a temporary queue that isn't": (
        producer("temp-queue://gone", ("temporary-queue",)), "target", "amqp:not-found",
    ),
    "a coordinator of promotable transactions": (
        producer("x", target=make("coordinator", capabilities=["amqp:promotable-transactions"])),
        "target", "amqp:not-implemented",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_link_is_attached_with_nothing_and_closed(gateway: Gateway, kind: str) -> None:
    """Attach with its own terminus null and the other one as it came, then detach closed with the
    error, and nothing else; when the client has answered the handle and the name are free."""
    attach_frame, terminus, condition = REFUSED[kind]
    with Jms(gateway.port) as jms:
        for _ in range(2):
            jms.send(attach_frame)
            attach, detach = jms.expect("attach", "detach")
            assert attach[terminus] is None
            assert attach["role"] is (terminus == "target")
            assert (detach["handle"], detach["closed"]) == (attach["handle"], True)
            assert detach.error == condition
            assert detach.says
            jms.detach(closed=True)
            assert jms.heard() == []


def test_a_refused_link_leaves_the_connection_alone(gateway: Gateway, topic: str) -> None:
    """Other links of the session go on."""
    with Jms(gateway.port) as jms, Jms(gateway.port) as other:
        jms.subscribed("r", source(topic))
        jms.send(producer("", handle=1))
        jms.expect("attach", "detach")
        jms.detach(closed=True, handle=1)
        jms.credit(1)
        other.publish(topic, "x")
        assert jms.bodies(1) == ["x"]


@pytest.fixture
def impatient(own_gateway: Callable[[Settings | None], Gateway]) -> Iterator[Gateway]:
    """A gateway that soon drops who says nothing."""
    with own_gateway({"amqp": {"idle_timeout_ms": 5_000}}) as running:
        yield running


def test_a_silent_client_is_dropped_and_an_empty_frame_is_enough(impatient: Gateway) -> None:
    """Half of `amqp.idle_timeout_ms` is announced. A client that sends empty frames stays, one that
    sends nothing gets a close that says why."""
    with Jms(impatient.port) as silent, Jms(impatient.port) as alive:
        assert silent.opened["idle-time-out"] == 2_500
        for _ in range(20):
            alive.socket.settimeout(0.3)  # the stimulus: a frame now and then
            alive.send(EMPTY_FRAME)
            with pytest.raises(TimeoutError):
                alive.exactly(1 << 20)
        frames = silent.until_end()
        assert frames[-1].kind == "close"
        assert frames[-1].error == "amqp:resource-limit-exceeded"


def test_a_client_that_wants_signs_of_life_gets_them(gateway: Gateway, topic: str) -> None:
    """Empty frames at half of the time-out that it announced, though there is nothing to say."""
    hello = AMQP_HEADER + frame_of("open", container_id=topic, idle_time_out=400)
    with Raw(gateway.port, hello=hello) as raw:
        frames = raw.frames()
        assert [next(frames).kind for _ in range(4)] == ["open", "empty", "empty", "empty"]
