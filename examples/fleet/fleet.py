"""The fleet from its first line on the screen to its last: play, kill, materialize, check.

Rule 1: no client is connected to the gateway that owns the flights' log: all of their links are
        relayed to it, and to the standby that takes the log over when it was killed.
Rule 2: a message without an outcome is sent to the new owner again, so the topic detects
        duplicates by the flights' ids.
"""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.tables.home.home import Home
from examples.demo import demo_report
from examples.demo.demo import INTERRUPTED, Phases, console_of, equation, prepare, started
from examples.demo.demo_report import Numbers, Run
from examples.demo.flights import TOPIC
from examples.demo.play import (
    AUDITORS,
    DISPATCHERS,
    WORKERS,
    Played,
    Watch,
    create_subscription,
    wait_for_commits,
)
from examples.demo.stage import GATEWAY, DemoFailed, Gateway, Part, Stage, stage

#: The logs beside `main`; the topic is in the one of its name.
LOGS: Final = ("flights", "archive")
#: Ids of so many last messages are known again.
SETTINGS: Final = {"DISTRIBUTARY_TOPIC_DUPLICATES_MESSAGES": "100000"}


def run(root: Path, flights: int, *, as_json: bool) -> int:
    """Show the fleet; the exit code. Errors of the kinds that are foreseen are raised."""
    console = console_of(as_json=as_json)
    try:
        _run(root, flights, console, as_json=as_json)
    except KeyboardInterrupt:
        console.print("\nStopped; nothing of the fleet runs any more.")
        return INTERRUPTED
    return 0


def _run(root: Path, flights: int, console: Console, *, as_json: bool) -> None:
    demo_report.require_spark()
    phases = Phases()
    home = prepare(root, keep=False)
    with stage(home.root) as made:
        with phases.phase("gateways started"), console.status("three gateways start"):
            _make_logs(home.root)
            fleet = Fleet(made)
        for line in fleet.lines(flights):
            console.print(line, highlight=False)
        with phases.phase("published and delivered"), console.status("it plays"):
            played = fleet.play(flights, lambda line: console.print(line, highlight=False))
        with phases.phase("committed"), console.status("the new owner commits the rest"):
            wait_for_commits(fleet.standby)
    with phases.phase("asked Spark"), console.status("Spark materializes the log, and is asked"):
        numbers = _ask(Home(home.root / "logs" / TOPIC), flights, console)
    if as_json:
        said = {"published": played.published, "settled": numbers.settled, **fleet.figures()}
        print(json.dumps(said | {"messages": numbers.messages, "seconds": phases.seconds}))  # noqa: T201 (the result)
    wrong = off(flights, played, numbers)
    style = "bold red" if wrong else "bold green"
    console.print(f"\n{equation(played, numbers)}", style=style, highlight=False, soft_wrap=True)
    if wrong:
        raise DemoFailed(wrong)


def _make_logs(root: Path) -> None:
    """As a person would type it."""
    for log in LOGS:
        _distributary("log", "create", log, "--home", str(root))
    _distributary("log", "place", TOPIC, TOPIC, "--home", str(root))


def _distributary(*words: str) -> None:
    done = subprocess.run([GATEWAY[0], *words], capture_output=True, text=True, check=False)  # noqa: S603 (our own program)
    if done.returncode:
        raise DemoFailed(f"distributary {' '.join(words)}: {done.stderr.strip()}")


@dataclass(slots=True)
class Fleet:
    """Three gateways that were started alike, each with a log, and one more that waits."""

    stage: Stage
    owner: Gateway = field(init=False)
    others: list[Gateway] = field(init=False)
    standby: Gateway = field(init=False)
    killed_at: float = 0.0
    #: Longest time without an accepted flight after the kill, in seconds.
    pause: float = 0.0

    def __post_init__(self) -> None:
        start = self.stage.start_gateway
        gateways = [start(f"gateway-{nth}", "--log", "any", settings=SETTINGS) for nth in (1, 2, 3)]
        [self.owner] = (one for one in gateways if one.serves == TOPIC)
        self.others = [one for one in gateways if one is not self.owner]
        self.standby = start("standby", "--log", "any", "--standby", settings=SETTINGS)

    def lines(self, flights: int) -> tuple[str, ...]:
        """The line that describes the fleet."""
        serve = "[bold]distributary serve --log any[/] on 127.0.0.1"
        return (
            *(f"{serve}:{one.port} serves {one.serves}" for one in (*self.others, self.owner)),
            f"{serve}:{self.standby.port} waits for whichever dies",
            f"Topic {TOPIC}: {flights:,} flights; no client is connected to the owner of its log",
            "",
        )

    def play(self, flights: int, tell: Callable[[str], None]) -> Played:
        """Publish through one gateway and consume through two, until each flight is accepted by a
        worker. Half way the owner of their log is killed."""
        create_subscription(self.others[0].port, AUDITORS)
        workers = [
            self.stage.start_part(name, "worker", self.others[nth % 2].port, name, DISPATCHERS, 0)
            for nth, name in enumerate(WORKERS)
        ]
        watch = Watch(self.others[0], [*workers])
        watch.until(lambda: all(worker.said.ready for worker in workers), "the workers' attach")
        publisher = self.stage.start_part("publisher", "publisher", self.others[0].port, flights)
        watch.parts.append(publisher)
        watch.until(lambda: _done(workers) >= flights // 2, "the first half")
        self.owner.process.kill()
        self.killed_at = time.monotonic()
        tell(f"killed the owner of {TOPIC} after {_done(workers):,} flights")
        progress = _Progress(workers)
        watch.until(
            lambda: progress.looked() and not publisher.running and _done(workers) >= flights,
            "the second half",
        )
        self.pause = progress.pause
        took = f"127.0.0.1:{self.standby.port} took {self.standby.serves} over"
        tell(f"{took}; the longest time without a flight: {self.pause:.1f} s")
        for worker in workers:
            worker.process.terminate()
        watch.until(lambda: not any(one.running for one in workers), "the workers' leave")
        for part in watch.parts:
            part.require_well()
        return Played(publisher.said.done, {one.name: one.said.done for one in workers}, 0)

    def figures(self) -> dict[str, object]:
        """The effect of the kill, for the result."""
        return {"pause_seconds": round(self.pause, 2)}


class _Progress:
    """Looks how far workers are; `pause` is the longest time in which they didn't move."""

    def __init__(self, workers: list[Part]) -> None:
        self._workers, self._seen, self._since = workers, _done(workers), time.monotonic()
        self.pause = 0.0

    def looked(self) -> bool:
        """True."""
        now, done = time.monotonic(), _done(self._workers)
        if done != self._seen:
            self.pause = max(self.pause, now - self._since)
            self._seen, self._since = done, now
        return True


def _done(workers: list[Part]) -> int:
    return sum(worker.said.done for worker in workers)


def _id(name: str) -> str:
    return SubscriptionKey(container=None, name=name, durable=True).id


def _ask(home: Home, flights: int, console: Console) -> Numbers:
    run = Run(home, TOPIC, 0, flights, _id(DISPATCHERS), _id(AUDITORS))
    spark = started(home.root / "spark.log")

    def tell(line: str) -> None:
        console.print(f"[dim]{line}[/]", highlight=False, soft_wrap=True)

    demo_report.bring_up_to_date(spark, run, tell)
    numbers, _ = demo_report.ask(spark, run)
    return numbers


def off(flights: int, played: Played, numbers: Numbers) -> str:
    """Return which number is off and by how much; '' if all are right."""
    rules = (
        ("published", played.published, flights),
        (f"settled by {DISPATCHERS}", numbers.settled, flights),
        (f"pending for {DISPATCHERS}", numbers.pending(_id(DISPATCHERS)), 0),
        (f"pending for {AUDITORS}", numbers.pending(_id(AUDITORS)), flights),
        ("rows of messages", numbers.messages, flights),
        ("rows of messages that could not be decoded", numbers.undecodable, 0),
    )
    wrong = [
        f"{what} is {found:,} and must be {wanted:,}"
        for what, found, wanted in rules
        if found != wanted
    ]
    return "the numbers do not agree: " + "; ".join(wrong) if wrong else ""
