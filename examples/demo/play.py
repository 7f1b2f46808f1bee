"""The demo's first part, over AMQP: publish all flights, deal them to four workers, lose one.

Rule 1: both subscriptions exist before the first flight is published, so both are owed all.
Rule 2: `auditors` never consumes; `dispatchers` is left only when nothing is left to do.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)

from distributary.client import connect
from examples.demo.flights import TOPIC
from examples.demo.stage import DemoFailed, Gateway, Part, Stage
from examples.demo.worker import PREFETCH

DISPATCHERS, AUDITORS = "dispatchers", "auditors"
WORKERS = ("worker-1", "worker-2", "worker-3", "worker-4")
#: The one that dies half way.
MORTAL = "worker-2"
#: Flights below which a demo is small: less than a second of delivering.
SMALL = 50_000

#: Seconds without any progress after which the demo fails.
STILL_SECONDS_MAX = 60.0
#: Seconds without a commit after which the table has all: the gateway commits once a second.
QUIET_SECONDS = 2.5
#: Colours of the workers, on the screen and in the picture.
COLOURS = {
    "worker-1": "#2a78b8",
    "worker-2": "#d1495b",
    "worker-3": "#3b9c6d",
    "worker-4": "#e0a030",
}


@dataclass(frozen=True, slots=True)
class Played:
    """Counts by the clients: accepted by the gateway, settled by each worker."""

    published: int
    settled: dict[str, int]
    held: int


def create_subscription(port: int, name: str) -> None:
    """Make a durable subscription by a client that attaches and goes offline at once."""

    async def subscribe() -> None:
        async with connect(f"amqp://127.0.0.1:{port}", container_id=f"{name}-office") as client:
            await client.subscribe(name, topic=TOPIC).begin()

    asyncio.run(subscribe())


def dies_after(flights: int) -> int:
    """Return the number of flights that the mortal worker settles: half of its share.

    A small demo is over so fast that a worker may get less on a busy machine; there it is half of
    the messages that its first credit surely brings.
    """
    share = flights // len(WORKERS)
    return share // 2 if flights >= SMALL else min(share, PREFETCH) // 2


def play(stage: Stage, gateway: Gateway, flights: int, console: Console) -> Played:
    """Publish and deliver; returns when each flight is accepted by a worker and all have left."""
    create_subscription(gateway.port, AUDITORS)
    workers = [
        stage.start_part(
            name,
            "worker",
            gateway.port,
            name,
            DISPATCHERS,
            dies_after(flights) if name == MORTAL else 0,
        )
        for name in WORKERS
    ]
    watch = Watch(gateway, [*workers])
    watch.until(lambda: all(worker.said.ready for worker in workers), "the workers' attach")
    publisher = stage.start_part("publisher", "publisher", gateway.port, flights)
    watch.parts.append(publisher)
    mortal = workers[WORKERS.index(MORTAL)]
    with _screen(console, publisher, workers, flights) as draw:
        watch.until(
            lambda: (
                not publisher.running and sum(worker.said.done for worker in workers) >= flights
            ),
            "publishing and delivering",
            draw,
        )
        for worker in workers:
            if worker.running:
                worker.process.terminate()
        watch.until(
            lambda: not any(worker.running for worker in workers), "the workers' leave", draw
        )
        for part in watch.parts:
            part.require_well()
        draw()
    return Played(
        published=publisher.said.done,
        settled={worker.name: worker.said.done for worker in workers},
        held=mortal.said.held,
    )


def wait_for_commits(gateway: Gateway) -> None:
    """Wait until the running gateway has nothing left to commit."""
    commits, since = gateway.commits(), time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        gateway.require_well()
        time.sleep(0.1)
        if (now := gateway.commits()) != commits:
            commits, since = now, time.monotonic()


@dataclass(slots=True)
class Watch:
    """Waits for the parts, draws their progress, and notices when one fails or all stand still."""

    gateway: Gateway
    parts: list[Part]

    def until(
        self, done: Callable[[], bool], what: str, draw: Callable[[], None] = lambda: None
    ) -> None:
        said, since = self._said(), time.monotonic()
        while not done():
            self.gateway.require_well()
            for part in self.parts:
                part.require_well()
            draw()
            time.sleep(0.05)
            if (now := self._said()) != said:
                said, since = now, time.monotonic()
            if time.monotonic() - since > STILL_SECONDS_MAX:
                raise DemoFailed(
                    f"{what} stands still for {STILL_SECONDS_MAX:.0f} s at "
                    + ", ".join(f"{part.name} {part.said.done:,}" for part in self.parts)
                )

    def _said(self) -> list[object]:
        return [(part.said, part.running) for part in self.parts]


@contextlib.contextmanager
def _screen(
    console: Console, publisher: Part, workers: list[Part], flights: int
) -> Iterator[Callable[[], None]]:
    """Show bars for all parts; yield the function that updates them."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=44),
        MofNCompleteColumn(),
        TaskProgressColumn(show_speed=False),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        refresh_per_second=10,
    ) as progress:
        bars: dict[str, TaskID] = {
            part.name: progress.add_task(_label(part.name), total=flights, note="")
            for part in (publisher, *workers)
        }
        everybody = progress.add_task("[bold]settled[/]", total=flights, note="")

        def draw() -> None:
            for part in (publisher, *workers):
                note = ""
                if part.said.dying:
                    note = f"[red]killed, holding {part.said.held:,} unsettled[/]"
                progress.update(bars[part.name], completed=part.said.done, note=note)
            done = sum(worker.said.done for worker in workers)
            progress.update(everybody, completed=min(done, flights))

        yield draw


def _label(name: str) -> str:
    if name in COLOURS:
        return f"[{COLOURS[name]}]{name}[/]"
    return "[bold]published[/]"
