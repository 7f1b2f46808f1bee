"""The connection: logins, the errors where no server answers, and reconnection."""

import asyncio
import gc
import socket
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from async_client import at, run, taken, until
from gateway_certificates import Authority
from gateway_process import Gateway, free_port

from distributary.client import (
    ClientClosed,
    ClientError,
    ConnectionFailed,
    InvalidRequest,
    LoginRefused,
    connect,
)
from distributary.client.connection.client_settings import defaults
from distributary.client.connection.dialing import Dialing
from distributary.client.connection.server_url import Files, server_of
from distributary.client.connection.wire import Wire
from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

PASSWORD = "wonder@land/ü"  # noqa: S105 (of alice, a made-up user)
QUOTED = "wonder%40land%2F%C3%BC"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def guarded(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with TLS that knows alice, by password and by certificate."""
    folder = tmp_path_factory.mktemp("guarded")
    users = folder / "users.toml"
    with changing(users) as known:
        known["alice"] = user_of(PASSWORD)
    chain, key = authority.issue("server", "gateway")
    security = {
        "users": str(users),
        "anonymous": False,
        "tls_certificate": str(chain),
        "tls_key": str(key),
        "tls_client_ca": str(authority.file),
    }
    with Gateway(folder, {"security": security}) as running:
        yield running


def refused(url: str, **options: object) -> ClientError:
    """Return the error of a client that isn't let in."""

    async def play() -> ClientError:
        with pytest.raises(ClientError) as told:
            async with connect(url, open_seconds=3, **options):  # type: ignore[arg-type]
                pass
        return told.value

    error = run(play())
    assert "\n" not in str(error)
    assert PASSWORD not in str(error)
    return error


def test_every_way_to_log_in(guarded: Gateway, authority: Authority) -> None:
    """SCRAM by URL and by arguments, PLAIN, a certificate."""
    chain, key = authority.issue("alice", "alice")
    place = f"localhost:{guarded.port}"

    async def play() -> None:
        for client in (
            connect(f"amqps://alice:{QUOTED}@{place}", ca=authority.file),
            connect(place, user="alice", password=PASSWORD, ca=authority.file),
            connect(f"amqps://{place}", ca=authority.file, certificate=chain, key=key),
        ):
            async with client:
                await client.publish("logins", "x")

    run(play())
    users = {event["user"] for event in guarded.events("connection.opened")}
    assert users == {"alice"}


def test_what_takes_many_records_of_tls_is_read_whole(
    guarded: Gateway, authority: Authority
) -> None:
    """A record has 16 KiB at most, and one read of the socket has many."""
    sent = [bytes([number]) * 100_000 for number in range(20)]

    async def play() -> None:
        url = f"amqps://alice:{QUOTED}@localhost:{guarded.port}"
        async with (
            connect(url, ca=authority.file) as client,
            client.consume("records") as consumer,
        ):
            for body in sent:
                await client.publish("records", body)
            for body in sent:
                message = await anext(consumer)
                assert message.body == body

    run(play())


def test_who_is_not_let_in_is_told_so(guarded: Gateway, authority: Authority) -> None:
    """Wrong password, unknown user, no user, TLS by mistake on either side, another authority."""
    place, ca = f"localhost:{guarded.port}", {"ca": authority.file}
    wrong = refused(f"amqps://alice:wrong@{place}", **ca)
    assert isinstance(wrong, LoginRefused)
    assert "user 'alice'" in str(wrong)
    assert isinstance(refused(f"amqps://eve:{QUOTED}@{place}", **ca), LoginRefused)
    nobody = refused(f"amqps://{place}", **ca)
    assert isinstance(nobody, LoginRefused)
    assert "ANONYMOUS" in str(nobody)
    assert "amqps://" in str(refused(f"amqp://alice:{QUOTED}@{place}"))
    stranger = Authority(authority.folder, "stranger")
    assert "isn't trusted" in str(refused(f"amqps://alice:{QUOTED}@{place}", ca=stranger.file))


def test_where_nobody_is(gateway: Gateway, authority: Authority) -> None:
    """A port without a listener, one that keeps silent, one that speaks something else, one
    without TLS."""
    assert "no server answers at amqp://127.0.0.1" in str(refused(f"127.0.0.1:{free_port()}"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"amqp://127.0.0.1:{silent.getsockname()[1]}"

        async def play() -> None:
            with pytest.raises(ConnectionFailed, match="opened an AMQP connection within"):
                async with connect(url, open_seconds=0.05):
                    pass

        run(play())
    with socket.create_server(("127.0.0.1", 0)) as web:

        def answer() -> None:
            with web.accept()[0] as peer:
                peer.sendall(b"HTTP/1.1 400 Bad\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert "doesn't speak AMQP" in str(refused(f"127.0.0.1:{web.getsockname()[1]}"))
        thread.join()
    plain = refused(f"amqps://localhost:{gateway.port}", ca=authority.file)
    assert "amqp://" in str(plain)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://x",
        "amqp://",
        "amqp://host:port",
        "amqp://host:70000",
        "amqp://a:b/c@host",
        "amqp://host/path",
        "amqp://user:secret@:5672",
    ],
)
def test_a_wrong_url_is_a_sentence(url: str) -> None:
    """Without the password in it."""
    with pytest.raises(InvalidRequest) as told:
        connect(url)
    assert "secret" not in str(told.value)
    assert "\n" not in str(told.value)


def test_wrong_arguments_are_sentences(tmp_path: Path) -> None:
    """Files that aren't there, TLS without TLS, numbers that can't be."""
    missing = tmp_path / "missing.pem"
    with pytest.raises(InvalidRequest, match=r"missing\.pem"):
        connect("amqps://host", ca=missing)
    with pytest.raises(InvalidRequest, match="amqps://"):
        connect("amqp://host", ca=missing)
    with pytest.raises(InvalidRequest, match="prefetch"):
        connect("amqp://host", prefetch=0)


def test_a_name_is_one_subscriptions(gateway: Gateway, topic: str) -> None:
    """A shared subscription's name ends at a `|` for the broker: two names would be one."""

    async def play() -> None:
        async with at(gateway, container_id=topic) as client:
            for name in ("billing|eu", ""):
                with pytest.raises(InvalidRequest, match="name"):
                    client.subscribe(name, topic=topic)
            with pytest.raises(InvalidRequest, match="name"):
                client.consume(topic, shared="billing|eu")
            async with client.subscribe("billing|eu", topic=topic, shared=False) as own:
                await own.unsubscribe()

    run(play())


@pytest.mark.parametrize("wrong", ["no UTF-8: \udcff", "orders\0"])
def test_texts_that_cannot_be_sent_are_sentences(gateway: Gateway, topic: str, wrong: str) -> None:
    """The engine would end a text at a NUL, and fail at half of a pair for all links."""
    for words in ({"user": wrong}, {"user": "u", "password": wrong}, {"container_id": wrong}):
        with pytest.raises(InvalidRequest, match="can't be"):
            at(gateway, **words)

    async def play() -> None:
        async with at(gateway, container_id=topic) as client:
            for made in (
                lambda: client.publisher(wrong),
                lambda: client.consume(f"queue://{wrong}"),
                lambda: client.consume(topic, shared=wrong),
                lambda: client.consume(topic, selector=f"a = '{wrong}'"),
                lambda: client.subscribe(wrong, topic=topic, shared=False),
            ):
                with pytest.raises(InvalidRequest, match="can't be"):
                    made()
            await client.publish(topic, "and on")

    run(play())


def test_a_client_is_a_context(gateway: Gateway, topic: str) -> None:
    """Operations outside of the context raise a sentence; a client can be used once."""

    async def play() -> None:
        client = at(gateway)
        with pytest.raises(InvalidRequest, match="async with"):
            await client.publish(topic, "x")
        async with client:
            messages = client.consume(topic)
            await messages.begin()
            waiting = asyncio.create_task(anext(messages))
            publishing = asyncio.create_task(client.publish(topic, "x"))
            await publishing
            await waiting
        assert [one async for one in messages] == []
        with pytest.raises(ClientClosed):
            await client.publish(topic, "x")
        with pytest.raises(ClientClosed):
            async with client:
                pass

    run(play())


def test_an_error_of_the_application_leaves_at_once(gateway: Gateway, topic: str) -> None:
    """And is the one that is raised."""

    async def play() -> None:
        with pytest.raises(ZeroDivisionError):
            async with at(gateway) as client, client.consume(topic):
                raise ZeroDivisionError

    run(play())


def test_the_next_server_is_tried(gateway: Gateway, topic: str) -> None:
    """The client connects to the second one if the first isn't there."""

    async def play() -> None:
        gone = f"127.0.0.1:{free_port()}"
        async with connect(gone, f"127.0.0.1:{gateway.port}") as client:
            await client.publish(topic, "x")

    run(play())


def test_a_connection_that_was_good_begins_the_waits_anew(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it was lost before: a gateway that is upgraded each month is no broken one."""
    monkeypatch.setattr("distributary.client.connection.reconnecting._GOOD_SECONDS", 0.0)
    losses = 7

    async def play() -> float:
        async with at(gateway) as client:
            began = asyncio.get_running_loop().time()
            for _ in range(losses):
                client.drop()
                await until(lambda: not client.connected, "it is lost")
                await until(lambda: client.connected, "it is back")
            return asyncio.get_running_loop().time() - began

    doubled = sum(defaults().reconnect.first_ms * 2**nth for nth in range(losses))
    assert run(play()) < doubled / 1_000 / 2


def test_nothing_confirmed_is_lost_when_the_gateway_dies(tmp_path: Path, topic: str) -> None:
    """Killed twice under publishes and a consumer: each publish returns, and each message of
    one that returned comes, in spite of all that was in flight."""
    count = 1_500

    async def publish(client_of: Gateway, confirmed: list[int]) -> None:
        async with at(client_of, window_messages=50) as client:

            async def one(n: int) -> None:
                await client.publish(f"queue://{topic}", n)
                confirmed.append(n)

            await asyncio.gather(*map(one, range(count)))

    async def play() -> None:
        confirmed: list[int] = []
        seen: set[object] = set()
        async with at(gateway, prefetch=20) as consumer:
            messages = consumer.consume(f"queue://{topic}")

            async def consume() -> None:
                while len(seen) < count:
                    (message,) = await taken(messages, 1)
                    seen.add(message.body)

            work = [asyncio.create_task(one) for one in (consume(), publish(gateway, confirmed))]
            for kill in range(1, 3):
                await until(lambda mark=kill: len(seen) > mark * count // 4, "some came")
                await asyncio.to_thread(gateway.kill)
                await asyncio.to_thread(gateway.start)
            await asyncio.gather(*work)
        assert sorted(confirmed) == list(range(count))
        assert seen == set(confirmed)

    with Gateway(tmp_path) as gateway:
        run(play())
        gateway.stop()
        gateway.verified()


def test_what_is_sent_again_has_its_id(tmp_path: Path, topic: str) -> None:
    """A topic that looks for duplicates has each message once, however often the line was cut."""
    count = 600

    async def play() -> None:
        async with at(gateway, window_messages=20) as client, at(gateway) as other:
            messages = other.consume(f"queue://{topic}")
            await messages.begin()
            done = 0

            async def publish(n: int) -> None:
                nonlocal done
                await client.publish(f"queue://{topic}", n)
                done += 1

            publishing = [asyncio.create_task(publish(n)) for n in range(count)]
            for cut in (100, 250, 400):
                await until(lambda mark=cut: done >= mark, "some are accepted")
                client.drop()
            await asyncio.gather(*publishing)
            await client.publish(f"queue://{topic}", "end")
            found = [message.body for message in await taken(messages, count + 1)]
            assert found[-1] == "end"
            assert sorted(found[:-1]) == list(range(count))

    with Gateway(tmp_path, {"topic": {"duplicates_messages": 10_000}}) as gateway:
        run(play())


def test_who_waits_too_long_is_told(tmp_path: Path, topic: str) -> None:
    """Publishes under way and consumers raise, once the time to wait for a gateway is over; without
    such a time at once."""

    async def play(seconds: float) -> None:
        async with at(gateway, give_up_seconds=seconds) as client:
            async with client.consume(topic) as messages:
                waiting = asyncio.create_task(anext(messages))
                await asyncio.to_thread(gateway.kill)
                with pytest.raises(ConnectionFailed):
                    await client.publish(topic, "x")
                with pytest.raises(ConnectionFailed):
                    await waiting
            with pytest.raises(ConnectionFailed):
                await client.publish(topic, "x")

    with Gateway(tmp_path) as gateway:
        run(play(0.3))
        gateway.start()
        run(play(0))


def test_a_silent_connection_is_kept(topic: str, tmp_path: Path) -> None:
    """The gateway drops clients that are silent for seconds; this client sends heartbeats."""

    async def play() -> None:
        async with at(gateway) as client, client.consume(topic) as messages:
            loop = asyncio.get_running_loop()
            late = loop.time() + 9.0
            await until(lambda: loop.time() > late, "time passes")
            await client.publish(topic, "x")
            await taken(messages, 1)

    with Gateway(tmp_path, {"amqp": {"idle_timeout_ms": 4_000}}) as gateway:
        run(play())
        assert len(gateway.events("connection.opened")) == 1


@pytest.mark.parametrize("there", [False, True])
def test_an_attempt_that_fails_leaves_nothing_behind(
    guarded: Gateway, authority: Authority, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cycle keeps the connection's buffers: a client that connects again and again, where no
    collector of cycles runs, needs no more memory by that."""
    made: list[weakref.ref[Wire]] = []
    begin = Wire.__init__

    def seen(wire: Wire, *given: Any) -> None:
        made.append(weakref.ref(wire))
        begin(wire, *given)

    monkeypatch.setattr(Wire, "__init__", seen)
    url = f"amqps://localhost:{guarded.port if there else free_port()}"
    server = server_of(url, "alice", "wrong", Files(authority.file))

    async def work() -> None:
        gc.disable()
        try:
            for _ in range(3):
                with pytest.raises(ClientError):
                    await Dialing((server,), "c", defaults().connection).dial()
            await until(lambda: not any(one() for one in made), "all three are gone")
            assert len(made) == 3
        finally:
            gc.enable()

    run(work())


class NeverMade:
    """A link that must not be made. A `ClientLink`."""

    error = None

    def make(self, wire: Wire) -> Any:
        raise AssertionError(f"made on {wire}, which is lost")


def test_a_connection_that_is_lost_makes_no_link(tmp_path: Path) -> None:
    """Turns of the loop lie between the answer to its open and its first link."""

    async def work() -> None:
        server = server_of(f"amqp://127.0.0.1:{gateway.port}", "", "", Files())
        wire = await Dialing((server,), "c", defaults().connection).dial()
        wire.abort(ConnectionFailed("by this test"))
        await wire.lost
        wire.attach(cast("Any", NeverMade()))

    with Gateway(tmp_path) as gateway:
        run(work())


@pytest.mark.parametrize(
    "url", ["amqp://[::1", "[x]:1", "amqp://me:secret@[::1", "amqp://h:x", "\udcff"]
)
def test_a_url_that_names_nothing_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="is no broker's URL") as refused:
        server_of(url, "", "", Files())
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".y", "a\0b"])
def test_what_can_be_no_host_fails_as_one_that_is_not_there(host: str) -> None:
    async def work() -> None:
        server = server_of(f"amqp://{host}:1", "", "", Files())
        with pytest.raises(ConnectionFailed, match="names no host"):
            await Dialing((server,), "c", defaults().connection).dial()

    run(work())
