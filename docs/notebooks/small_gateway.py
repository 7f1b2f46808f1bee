"""A gateway for one notebook: on a free port, its home in a temporary folder, flights as messages.

Gateway and folder go when the notebook's kernel ends. What clients do here any AMQP client can do:
docs/guides/clients.md has the programs.
"""

import asyncio
import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from proton import Delivery, Message, SymbolList, Timeout
from proton.reactor import DurableSubscription, LinkOption, Selector
from proton.utils import BlockingConnection
from pyspark.sql import SparkSession

from examples.demo.flights import TOPIC, Encoder, rows
from distributary.client import Encoded, connect
from distributary.jobs.materialize.materialize import once

#: Milliseconds between two commits of the log: notebooks wait for them.
COMMIT_MS = 200
#: Seconds that anything may take.
PATIENCE = 60.0
#: Seconds without a message after which no more are expected.
QUIET = 0.5


class SmallGateway:
    """`distributary serve`, and what happens around it. `home` is its folder, `address` is where
    it listens, `folder` is there for whatever else the notebook writes."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="distributary-")
        self.folder = self._folder.name
        self.home = f"{self.folder}/home"
        self.port = _free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._log = Path(self.folder, "gateway.log")
        self._flights, self._encoder = enumerate(rows()), Encoder()
        others = {key: said for key, said in os.environ.items() if "DISTRIBUTARY" not in key}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [Path(sys.executable).with_name("distributary"), "serve", "--json", "--verbose"]
                + ["--home", self.home, "--listen", self.address],
                stdout=log,
                stderr=log,
                env=others | {"DISTRIBUTARY_COMMIT_INTERVAL_MS": str(COMMIT_MS)},
                start_new_session=True,  # an interrupted cell doesn't stop it
            )
        atexit.register(self.stop)
        self._until(lambda: self._said("listening") > 0, "the gateway listens")
        # For the commands in the notebook's cells.
        os.environ["DISTRIBUTARY_GATEWAY"] = self.address
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    def stop(self) -> None:
        """End it and remove its home."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(PATIENCE)
        self._folder.cleanup()

    def publish(self, count: int) -> None:
        """Publish the next `count` flights; returns when each is accepted."""
        some = islice(self._flights, count)
        self.publish_all(TOPIC, (self._encoder.message(number, row) for number, row in some))

    def publish_json(self, topic: str, bodies: list[dict]) -> None:
        """Publish bodies as JSON; returns when each is accepted."""
        messages = (
            Message(json.dumps(one).encode(), inferred=True, durable=True) for one in bodies
        )
        self.publish_all(topic, (one.encode() for one in messages))

    def publish_all(self, topic: str, messages: Iterable[bytes]) -> None:
        """Publish whole messages, as AMQP has them; returns when each is accepted."""

        async def work() -> None:
            broker = connect(self.address, container_id="publisher")
            async with broker as client, client.publisher(topic) as publisher:
                for one in messages:
                    await publisher.send(Encoded(one))

        with ThreadPoolExecutor(1) as aside:  # the notebook's own thread has a loop already
            aside.submit(asyncio.run, work()).result()

    def send(self, body: str, *, delay_ms: int = 0, topic: str = TOPIC, **properties: str) -> None:
        """Publish one message, to be delivered after a delay."""
        connection = BlockingConnection(self.address, timeout=PATIENCE)
        annotations = {"x-opt-delivery-delay": delay_ms} if delay_ms else None
        connection.create_sender(topic).send(
            Message(body, durable=True, annotations=annotations, properties=properties or None)
        )
        connection.close()

    def consumer(
        self, name: str, subscription: str, *, credit: int, selector: str | None = None
    ) -> "Consumer":
        """A consumer of a shared durable subscription of the flights; it says the selector that
        the subscription has, as every client does."""
        return Consumer(self.address, name, subscription, credit, selector)

    def materialize(self, spark: SparkSession) -> None:
        """Bring Spark's tables to the log's end, as `distributary jobs materialize` does."""
        self.wait()
        once(spark, self.home)

    def wait(self) -> None:
        """Until the table of the log has all that was accepted: no commit comes any more."""
        commits, since = self._said("batch.committed"), time.monotonic()
        while time.monotonic() - since < 4 * COMMIT_MS / 1_000:
            time.sleep(0.05)
            if (now := self._said("batch.committed")) != commits:
                commits, since = now, time.monotonic()

    def _said(self, event: str) -> int:
        lines = self._log.read_text().splitlines()
        found = [json.loads(line) for line in lines if line.endswith("}")]
        return sum(one["event"] == event for one in found)

    def _until(self, done, what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"not so: {what}\n{self._log.read_text()}")
            time.sleep(0.02)


class Consumer:
    """One consumer of a subscription. It gets `credit` messages, and then only what it asks for."""

    def __init__(
        self, address: str, name: str, subscription: str, credit: int, selector: str | None
    ) -> None:
        chosen = [] if selector is None else [Selector(selector)]
        self._connection = BlockingConnection(address, timeout=PATIENCE, container_id=name)
        self._receiver = self._connection.create_receiver(
            TOPIC,
            name=f"{subscription}|global",
            options=[DurableSubscription(), _Shared(), *chosen],
            credit=0,  # Proton would ask for more by itself
        )
        self.more(credit)

    def take(self, count: int) -> list[Message]:
        """The next `count` messages, unsettled."""
        fetched = self._receiver.fetcher
        found = []
        for _ in range(count):
            self._connection.wait(lambda: fetched.has_message, timeout=PATIENCE)
            found.append(fetched.pop())
        return found

    def take_all(self) -> list[Message]:
        """What comes until nothing comes for a while, unsettled; so its credit must be enough."""
        fetched = self._receiver.fetcher
        found = []
        with contextlib.suppress(Timeout):
            while True:
                self._connection.wait(lambda: fetched.has_message, timeout=QUIET)
                found.append(fetched.pop())
        return found

    def accept(self, count: int) -> None:
        """The first `count` of those that were taken are done."""
        for _ in range(count):
            self._receiver.accept()
        self._heard()

    def give_back(self, count: int, *, failed: bool) -> None:
        """The first `count` of those that were taken go back; `failed` counts as an attempt."""
        for _ in range(count):
            delivery = self._receiver.fetcher.unsettled.popleft()
            delivery.local.failed = failed
            delivery.update(Delivery.MODIFIED if failed else Delivery.RELEASED)
            delivery.settle()
        self._heard()

    def more(self, credit: int) -> None:
        """Ask for so many more."""
        if credit:
            self._receiver.link.flow(credit)
            self._heard()

    def leave(self) -> None:
        """Go; the subscription stays, and what is unsettled goes to others."""
        self._connection.close()

    def _heard(self) -> None:
        """Until the gateway has heard what was said so far: it answers in order."""
        self._connection.create_sender(TOPIC).close()


class _Shared(LinkOption):
    """Shared by all who name it, whatever their container id."""

    def apply(self, receiver) -> None:
        receiver.source.capabilities.put_object(SymbolList(["topic", "shared", "global"]))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]
