"""Works off a subscription, as a process of its own:
`python -m examples.demo.worker PORT NAME SUBSCRIPTION DIES_AFTER`.

SIGTERM ends it when nothing is left to do. With DIES_AFTER above 0 it kills itself without a word
to the gateway after it has accepted so many messages, holding as many more as it may.
"""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass

from distributary.client import Subscription, connect
from examples.demo.demo_messages import INTERVAL_SECONDS, Member, Reporter, speak
from examples.demo.flights import TOPIC

#: Messages that the gateway may send ahead of our outcomes.
PREFETCH = 200
#: Seconds without a message after which a leaving worker waits no longer.
QUIET_SECONDS = 1.0


@dataclass(slots=True)
class Worker:
    """One consumer: takes and accepts, until it is told to leave or dies."""

    flights: Subscription
    reporter: Reporter
    dies_after: int
    done: int = 0

    async def work(self) -> None:
        """Until SIGTERM has come and no message comes any more."""
        leaving = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
        self.reporter.tell(Member(ready=True), now=True)
        taking, told = (asyncio.create_task(one) for one in (self._take(), leaving.wait()))
        while not told.done():
            await asyncio.wait(
                (taking, told), timeout=INTERVAL_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if taking.done():
                told.cancel()
                await taking  # it raises
            self.reporter.tell(Member(ready=True, done=self.done))
        seen = -1
        while seen != self.done:
            seen = self.done
            await asyncio.sleep(QUIET_SECONDS)
        taking.cancel()

    async def _take(self) -> None:
        async for message in self.flights:
            if self.dies_after and self.done == self.dies_after:
                await self._die()
            await message.accept()
            self.done += 1
            self.reporter.tell(Member(ready=True, done=self.done))

    async def _die(self) -> None:
        """Take as many messages as the credit allows, accept none of them, and be gone."""
        held = 1
        with suppress(TimeoutError):
            while held < PREFETCH:
                await asyncio.wait_for(anext(self.flights), QUIET_SECONDS)
                held += 1
        said = Member(ready=True, done=self.done, held=held, dying=True)
        self.reporter.tell(said, now=True)
        os.kill(os.getpid(), signal.SIGKILL)


async def play(reporter: Reporter, port: int, name: str, subscription: str, dies: int) -> None:
    """Work as this consumer."""
    url = f"amqp://127.0.0.1:{port}"
    broker = connect(url, container_id=name, prefetch=PREFETCH, give_up_seconds=0)
    async with broker as client, client.subscribe(subscription, topic=TOPIC) as flights:
        worker = Worker(flights, reporter, dies)
        await worker.work()
    reporter.tell(Member(ready=True, done=worker.done), now=True)


def main() -> int:
    port, name, subscription, dies = sys.argv[1:]
    return speak(
        lambda reporter: asyncio.run(play(reporter, int(port), name, subscription, int(dies)))
    )


if __name__ == "__main__":
    sys.exit(main())
