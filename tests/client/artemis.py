"""The client's calls against Apache ActiveMQ Artemis, by hand (its archive has 70 MB, a broker is a
JVM): `.venv/bin/python -m pytest tests/client/artemis.py`."""

import asyncio
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing

import pytest
from async_client import bodies, run, taken
from gateway_process import free_port, until
from jgo.maven import MavenContext

from distributary.client import (
    LoginRefused,
    Message,
    RolledBack,
    connect,
)

VERSION = "2.44.0"
DOWNLOAD_SECONDS_MAX = 600


class Planned(Exception):
    """An error of the application's."""


@pytest.fixture(scope="module")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a broker that lets alice in."""
    maven = MavenContext(timeout=DOWNLOAD_SECONDS_MAX)
    project = maven.project("org.apache.activemq", "apache-artemis").at_version(VERSION)
    archive = project.artifact(classifier="bin", packaging="tar.gz").resolve()
    folder, port = tmp_path_factory.mktemp("artemis"), free_port()
    with closing(tarfile.open(archive)) as files:
        files.extractall(folder, filter="data")
    made = folder / "broker"
    subprocess.run(
        [
            *(folder / f"apache-artemis-{VERSION}" / "bin" / "artemis", "create", made),
            *("--user", "alice", "--password", "secret", "--require-login", "--no-web"),
            *("--no-hornetq-acceptor", "--no-mqtt-acceptor", "--no-stomp-acceptor"),
            *("--default-port", str(free_port()), "--no-autotune", "--silent"),
            *("--host", "127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    settings = made / "etc" / "broker.xml"
    settings.write_text(settings.read_text().replace(":5672?", f":{port}?"))
    with (
        (made / "said").open("wb") as said,
        subprocess.Popen(
            [made / "bin" / "artemis", "run"], stdout=said, stderr=said, start_new_session=True
        ) as process,
    ):
        try:
            until(lambda: b"Server is now active" in (made / "said").read_bytes(), "Artemis", 120)
            yield f"amqp://alice:secret@127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def test_messages_and_subscriptions(artemis: str) -> None:
    """A durable shared subscription, one of a client, a topic, with a selector."""

    async def play() -> None:
        async with connect(artemis) as client, client.subscribe("billing", topic="orders") as first:
            await client.publish("topic://orders", "a")
            await client.publish(
                "topic://orders", Message(body=b"b", properties={"n": 1}, subject="s", priority=7)
            )
            one, two = await taken(first, 2)
            assert (one.body, two.body, two.properties["n"], two.priority) == (
                "a",
                b"b",
                1,
                7,
            )
        async with connect(artemis, container_id="shop") as client:
            async with client.subscribe("own", topic="orders", shared=False, selector="n > 1"):
                pass
            for n in range(4):
                await client.publish("topic://orders", Message(body=n, properties={"n": n}))
            own = client.subscribe("own", topic="orders", shared=False, selector="n > 1")
            assert await bodies(own, 2) == [2, 3]
            await own.unsubscribe()
        async with connect(artemis) as client:
            assert await bodies(client.subscribe("billing", topic="orders"), 4) == [0, 1, 2, 3]

    run(play())


def test_queues_and_outcomes(artemis: str) -> None:
    """Released, modified and accepted; browsed; prefetch; many under way."""
    queue = "queue://jobs"

    async def play() -> None:
        async with connect(artemis) as client:
            await client.publish(queue, "one")
            async with client.consume(queue, browse=True) as seen:
                assert (await anext(seen)).body == "one"
            async with client.consume(queue, prefetch=1) as jobs:
                await (await anext(jobs)).release()
                await (await anext(jobs)).modify()
                message = await anext(jobs)
                assert message.delivery_count >= 1
                await message.accept()
                async with client.publisher(queue) as publisher:
                    for n in range(500):
                        await publisher.send(n)
                await asyncio.gather(*(client.publish(queue, n) for n in range(500, 1_000)))
                assert await bodies(jobs, 1_000) == list(range(1_000))

    run(play())


def test_transactions_and_requests(artemis: str) -> None:
    """Committed, rolled back; a request with its answer."""

    async def play() -> None:
        async with connect(artemis) as client, client.consume("queue://raw", prefetch=1) as raw:
            await client.publish("queue://raw", "dough")
            with pytest.raises(Planned):  # noqa: PT012 (the block is what raises)
                async with client.transaction() as work:
                    await work.accept(await anext(raw))
                    await work.publish("queue://baked", "never")
                    raise Planned
        async with connect(artemis) as client, client.consume("queue://raw", prefetch=1) as raw:
            async with client.transaction() as work:
                message = await anext(raw)
                await work.accept(message)
                await work.publish("queue://baked", f"baked {message.text}")
            assert await bodies(client.consume("queue://baked"), 1) == ["baked dough"]

            async def serve() -> None:
                async for request in client.consume("queue://prices"):
                    await client.reply(request, 187.2)
                    await request.accept()

            serving = asyncio.create_task(serve())
            assert (await client.request("queue://prices", "pizza")).body == 187.2
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    run(play())


def test_a_lost_connection_comes_back(artemis: str) -> None:
    """Publishes under way are confirmed, and a transaction that it cut is rolled back."""

    async def play() -> None:
        async with connect(artemis) as client, client.consume("queue://lost") as messages:
            publishing = [asyncio.create_task(client.publish("queue://lost", n)) for n in range(50)]
            await asyncio.sleep(0)
            client.drop()
            await asyncio.gather(*publishing)
            seen: set[object] = set()
            while len(seen) < 50:
                seen |= set(await bodies(messages, 1))
            with pytest.raises(RolledBack):  # noqa: PT012 (the block is what raises)
                async with client.transaction() as work:
                    await work.publish("queue://lost", "never")
                    client.drop()

    run(play())


def test_a_wrong_login(artemis: str) -> None:
    """One sentence."""

    async def play() -> None:
        with pytest.raises(LoginRefused, match="alice"):
            async with connect(artemis.replace("secret", "wrong")):
                pass

    run(play())
