"""Works off a subscription, as a process of its own:
`python -m examples.demo.worker PORT NAME SUBSCRIPTION DIES_AFTER`.

SIGTERM ends it when nothing is left to do. With DIES_AFTER above 0 it kills itself without a word
to the gateway after it has accepted so many messages, holding as many more as it may.
"""

import os
import signal
import sys
import time
from dataclasses import dataclass
from types import FrameType

from proton import Link as ProtonLink

from examples.demo.demo_client import Client
from examples.demo.demo_messages import Member, Reporter, speak
from examples.demo.flights import TOPIC

#: Messages that the gateway may send ahead of our outcomes.
PREFETCH = 200
#: Seconds without a message after which nobody waits for more of them before dying.
QUIET_SECONDS = 1.0


@dataclass(slots=True)
class Worker:
    """One consumer: takes, accepts, asks for more, until it is told to leave or dies."""

    client: Client
    link: ProtonLink
    reporter: Reporter
    dies_after: int
    done: int = 0
    held: int = 0
    leaving: bool = False

    def work(self) -> None:
        signal.signal(signal.SIGTERM, self._told_to_leave)
        self.client.grant(self.link, PREFETCH)
        self.reporter.tell(Member(ready=True), now=True)
        while not self.leaving:
            self.take(0.05)
            if self.held:
                self.die()
            self.reporter.tell(Member(ready=True, done=self.done))
        self.finish()

    def take(self, seconds: float) -> None:
        """One step: accept each message that came, and ask for as many more.

        The run with which it would be time to die is accepted in part: one message of it or more
        is held.
        """
        for received in self.client.step(seconds).messages:
            count = received.count
            if self.held:
                count = 0
            elif self.dies_after and self.done + count >= self.dies_after:
                count = min(self.dies_after - self.done, count - 1)
            self.client.accept(received, count)
            self.client.grant(self.link, count)
            self.done += count
            self.held += received.count - count

    def finish(self) -> None:
        """Take what is left until the gateway says that there is no more, then detach."""
        while self._take_all():
            self.client.grant(self.link, PREFETCH)
        self.client.leave(self.link)
        self.client.close()
        self.reporter.tell(Member(ready=True, done=self.done), now=True)

    def _take_all(self) -> int:
        """What came until the gateway has used, or given back, all the credit it had."""
        count = 0
        self.client.drain(self.link)
        while self.link.credit > 0:
            for received in self.client.step(0.05).messages:
                self.client.accept(received, received.count)
                count += received.count
        self.done += count
        return count

    def die(self) -> None:
        """Take as many messages as the credit allows, accept none of them, and be gone."""
        last = time.monotonic()
        while self.held < PREFETCH and time.monotonic() - last < QUIET_SECONDS:
            count = sum(received.count for received in self.client.step(0.05).messages)
            if count:
                self.held, last = self.held + count, time.monotonic()
        said = Member(ready=True, done=self.done, held=self.held, dying=True)
        self.reporter.tell(said, now=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def _told_to_leave(self, _signal: int, _frame: FrameType | None) -> None:
        self.leaving = True


def main() -> int:
    port, name, subscription, dies_after = sys.argv[1:]

    def play(reporter: Reporter) -> None:
        client = Client("127.0.0.1", int(port), name)
        link = client.subscribe(subscription, TOPIC)
        Worker(client, link, reporter, int(dies_after)).work()

    return speak(play)


if __name__ == "__main__":
    sys.exit(main())
