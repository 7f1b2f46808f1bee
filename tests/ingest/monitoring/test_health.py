"""Life, readiness, and what strangers can do to the port that says so."""

import contextlib
import select
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_http import ShownGateway
from gateway_peer import Connect
from gateway_process import Gateway, Settings, until

Make = Callable[..., ShownGateway]


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Make]:
    made: list[ShownGateway] = []

    def make(settings: Settings | None = None) -> ShownGateway:
        made.append(ShownGateway(tmp_path / f"gateway-{len(made)}", settings))
        return made[-1]

    yield make
    for one in made:
        one.__exit__(None, None, None)


def raw(gateway: ShownGateway, data: bytes) -> bytes:
    """All that the gateway says to these bytes until it ends the connection."""
    with socket.create_connection(("127.0.0.1", gateway.http_port), timeout=30) as peer:
        peer.sendall(data)
        said = b""
        while more := peer.recv(65_536):
            said += more
        return said


def test_a_gateway_that_serves_is_ready(shown: Make) -> None:
    """An unknown path is answered with the known ones; caches are told to store nothing."""
    gateway = shown().start()
    assert gateway.ask("/livez")[:2] == gateway.ask("/readyz?verbose")[:2] == (200, "ok\n")
    status, text, headers = gateway.ask("/metrics")
    assert (status, headers["Content-Type"].split(";")[0]) == (200, "text/plain")
    assert headers["Cache-Control"] == "no-store"
    assert "distributary_ready 1.0\n" in text
    assert gateway.ask("/")[:2] == (404, "there are /livez, /readyz, /metrics\n")
    assert gateway.ask("/metrics", "HEAD")[:2] == (200, "")
    assert gateway.ask("/metrics", "POST")[0] == 405


def test_a_standby_lives_and_is_ready_when_it_serves(shown: Make) -> None:
    """A load balancer that asks for readiness finds the owner."""
    settings = {"owner": {"lease_ms": 900}}
    owner, standby = shown(settings).start(), shown(settings)
    standby.home, standby.options = owner.home, ["--standby"]
    standby.spawn()
    standby.await_event("http.listening")
    standby.await_event("standby.waiting")
    assert standby.ask("/livez")[0] == 200
    assert standby.ask("/readyz")[:2] == (503, "it stands by for the home's owner\n")
    assert standby.metrics() == {("distributary_ready", ()): 0}
    owner.kill()
    standby.await_event("listening")
    until(lambda: standby.ask("/readyz")[0] == 200, "the standby is ready")


def test_an_owner_that_lost_its_home_is_not_ready(shown: Make) -> None:
    """It was stopped for longer than its lease; when it wakes, it ends."""
    settings = {"owner": {"lease_ms": 900}}
    owner, standby = shown(settings).start(), shown(settings)
    standby.home, standby.options = owner.home, ["--standby"]
    standby.spawn()
    standby.await_event("standby.waiting")
    assert owner.process is not None
    owner.process.send_signal(signal.SIGSTOP)
    standby.await_event("listening")
    owner.process.send_signal(signal.SIGCONT)
    owner.ended(1)
    assert standby.ask("/readyz")[0] == 200


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"\x00\xff\x00\xff\r\n\r\n", b"400"),
        (b"AMQP\x00\x01\x00\x00\r\n\r\n", b"400"),
        (b"GET /livez HTTP/1.1\r\n\r\n", b"400"),  # without a host
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 20_000, b"431"),
        (b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", b"413"),
    ],
)
def test_what_is_no_request_ends_its_connection(shown: Make, said: bytes, status: bytes) -> None:
    """With the reason; the gateway goes on."""
    gateway = shown().start()
    answer = raw(gateway, said)
    assert answer.split(b" ")[1] == status, answer
    assert gateway.ask("/readyz")[0] == 200
    assert not gateway.events("http.bug")


def ended(peer: socket.socket) -> bool:
    """Whether the gateway ends the connection, and says nothing before: by a reset or an end."""
    try:
        return peer.recv(1) == b""
    except ConnectionError:
        return True


def test_whoever_is_slow_or_one_too_many_is_let_go(shown: Make) -> None:
    """Connections and their time are bounded."""
    gateway = shown({"http": {"connections_max": 2, "request_ms_max": 3_000}}).start()
    address = ("127.0.0.1", gateway.http_port)
    with socket.create_connection(address) as first, socket.create_connection(address) as second:
        first.sendall(b"GET /livez HT")
        second.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert second.recv(12) == b"HTTP/1.1 200"
        with socket.create_connection(address) as third:
            third.settimeout(30)
            assert ended(third)
        first.settimeout(30)
        assert ended(first)
    until(lambda: gateway.ask("/livez")[0] == 200, "there is room again")


def test_requests_follow_each_other_on_one_connection(shown: Make) -> None:
    """Also those that came together."""
    gateway = shown().start()
    one = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert raw(gateway, 3 * one + last).count(b"HTTP/1.1 200") == 4


def memory_mb(gateway: ShownGateway) -> float:
    """The most memory that the gateway had since its start."""
    assert gateway.process is not None
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def test_who_asks_and_does_not_read_costs_one_answer(shown: Make) -> None:
    """However many requests come together: no other answer is made before this one is taken."""
    gateway = shown({"http": {"request_ms_max": 2_000}}).start()
    assert gateway.ask("/metrics")[0] == 200
    before = memory_mb(gateway)
    with socket.create_connection(("127.0.0.1", gateway.http_port), timeout=30) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with contextlib.suppress(ConnectionError):  # it is ended when it has read nothing so long
            peer.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 200_000)
        end = select.poll()
        end.register(peer, 0)
        end.poll(15_000)
    assert gateway.ask("/readyz")[0] == 200
    assert memory_mb(gateway) - before < 16


def test_a_port_that_is_not_free_stops_nobody(shown: Make, connect: Connect) -> None:
    """Messages go; when the port is free it is taken."""
    gateway = shown()
    with socket.create_server(("127.0.0.1", gateway.http_port)):
        gateway.start()
        warned = gateway.await_event("http.waits")
        assert warned["reason"] == "Address already in use"
        peer = connect(port=gateway.port)
        peer.sender("t").publish("x")
    gateway.await_event("http.listening")
    assert gateway.ask("/readyz")[0] == 200
    assert len(gateway.events("http.waits")) == 1


def test_without_an_address_there_is_none(own_gateway: Callable[..., Gateway]) -> None:
    gateway = own_gateway({"http": {"listen": ""}}).start()
    gateway.stop()
    assert not gateway.events("http.listening")
