"""The demo from its first line on the screen to its last: play, materialize, show, check.

It makes the home anew, unless told to keep it; a home that it didn't make is never touched.
"""

import contextlib
import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

from pyspark.sql import SparkSession
from rich.console import Console
from rich.status import Status

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import lock
from examples.demo import demo_report, demo_show
from examples.demo.demo_report import Numbers, Run
from examples.demo.flights import TOPIC
from examples.demo.play import AUDITORS, COLOURS, DISPATCHERS, Played, play, wait_for_commits
from examples.demo.stage import INTERRUPTS, DemoFailed, Stage, stage

#: Exit code after Ctrl-C or SIGTERM, as shells expect it.
INTERRUPTED = 130
#: The file by which the demo knows a home that it made.
MARK = "made-by-the-demo"
PICTURE = "deliveries.png"


@dataclass(slots=True)
class Phases:
    """Seconds that each part took, in their order."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 1)


def run(root: Path, flights: int, *, keep: bool, as_json: bool, stay: bool = False) -> int:
    """Show the demo; the exit code. Errors of the kinds that are foreseen are raised. `stay`: when
    all is shown gateway and console run on, until Ctrl-C.

    With `as_json` the numbers go to standard output as one object, all else to standard error.
    """
    console = console_of(as_json=as_json)
    try:
        _run(root, flights, console, keep=keep, as_json=as_json, stay=stay)
    except KeyboardInterrupt:
        console.print("\nStopped; nothing of the demo runs any more.")
        return INTERRUPTED
    return 0


def console_of(*, as_json: bool) -> Console:
    """The console for a demo's progress; from now on Ctrl-C and SIGTERM interrupt the demo."""
    _listen_to_signals()
    # A copy of standard error: Spark's own words take the original's place for a while.
    return Console(file=os.fdopen(os.dup(2), "w")) if as_json else Console()


def _listen_to_signals() -> None:
    for number in INTERRUPTS:
        signal.signal(number, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    logging.disable()  # Spark's client reports each call that an interrupt cuts
    raise KeyboardInterrupt


def _run(
    root: Path, flights: int, console: Console, *, keep: bool, as_json: bool, stay: bool
) -> None:
    phases = Phases()
    demo_report.require_spark()
    home = prepare(root, keep=keep)
    with stage(home.root) as made:
        played, numbers = _perform(made, home, flights, console, phases)
        _show(home, played, numbers, phases, console, as_json=as_json)
        style = "bold red" if (wrong := off(flights, played, numbers)) else "bold green"
        console.print(
            f"\n{equation(played, numbers)}", style=style, highlight=False, soft_wrap=True
        )
        if wrong:
            raise DemoFailed(wrong)
        if stay:
            _stay(made, console)
    console.print(_later(home), style="dim", highlight=False, soft_wrap=True)


def _later(home: Home) -> str:
    """How to look around in the browser when the demo is over."""
    return (
        "\nIn the browser, at http://127.0.0.1:8161 (`make demo STAY=1` leaves it open):\n"
        f"  distributary serve --home {home.root} &\n"
        f"  distributary console --home {home.root}"
    )


def _stay(made: Stage, console: Console) -> None:
    text = f"\nThe console: {made.console}  (Ctrl-C ends it and the gateway)"
    console.print(text, highlight=False, soft_wrap=True)
    while True:
        signal.pause()


def _show(
    home: Home, played: Played, numbers: Numbers, phases: Phases, console: Console, *, as_json: bool
) -> None:
    if as_json:
        print(json.dumps(_as_json(played, numbers, phases)))  # noqa: T201 (the result)
    else:
        demo_show.show(console, numbers, COLOURS)
        console.print(f"\nThe picture: {home.root / PICTURE}", highlight=False)
        spent = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in phases.seconds.items())
        console.print(
            f"Time: {spent}; {sum(phases.seconds.values()):.0f} s in all",
            style="dim",
            highlight=False,
        )


def prepare(root: Path, *, keep: bool) -> Home:
    """The demo's home, emptied unless it is to be kept.

    Raises InvalidRequest if the folder holds something that the demo did not make, and HomeLocked
    if a gateway runs on it.
    """
    home = Home(root)
    if root.exists() and not root.is_dir():
        raise InvalidRequest(f"{root} is no folder: give another --home")
    found = {entry.name for entry in root.iterdir()} if root.exists() else set()
    if found and MARK not in found:
        raise InvalidRequest(
            f"{root} holds something that the demo did not make, and the demo starts with an "
            "empty home: give another --home"
        )
    with lock(home):
        if not keep:
            for name in found - {home.lock_path.name, home.takeover_path.name}:
                _remove(root / name)
        (root / MARK).touch()
    return home


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _perform(
    made: Stage, home: Home, flights: int, console: Console, phases: Phases
) -> tuple[Played, Numbers]:
    with phases.phase("gateway started"), console.status("the gateway starts"):
        gateway = made.start_gateway()
        made.start_console(gateway)
    for line in (
        f"[bold]distributary serve[/] listens on 127.0.0.1:{gateway.port}, home {home.root}",
        f"The console: {made.console}",
        f"Topic {TOPIC}: {flights:,} flights; {AUDITORS} is offline, {DISPATCHERS} has 4 workers",
        "",
    ):
        console.print(line, highlight=False)
    with phases.phase("published and delivered"):
        played = play(made, gateway, flights, console)
    with phases.phase("committed"), console.status("the gateway commits the rest"):
        wait_for_commits(gateway)
    console.print("\nThe gateway runs on; Spark reads its log and never writes it.")
    run = Run(home, TOPIC, gateway.first, flights, _id(DISPATCHERS), _id(AUDITORS))
    with console.status("Spark starts") as status:
        numbers = _ask_spark(run, console, status, phases)
    gateway.require_well()
    return played, numbers


def _id(name: str) -> str:
    return SubscriptionKey(container=None, name=name, durable=True).id


def _ask_spark(run: Run, console: Console, status: Status, phases: Phases) -> Numbers:
    with phases.phase("Spark started"):
        spark = started(run.home.root / "spark.log")

    def tell(line: str) -> None:
        console.print(f"[dim]{line}[/]", highlight=False, soft_wrap=True)

    status.update("Spark materializes the log: messages, acks, cursors")
    with phases.phase("materialized"):
        demo_report.bring_up_to_date(spark, run, tell)
    status.update("Spark asks the tables: acks, cursors, messages")
    with phases.phase("asked"):
        numbers, pace = demo_report.ask(spark, run)
    status.update("matplotlib draws")
    with phases.phase("drawn"):
        demo_show.draw(pace, numbers, COLOURS, run.home.root / PICTURE)
    return numbers


def started(log: Path) -> SparkSession:
    """Start the Spark session; Spark's output meanwhile goes to the file."""
    with _errors_to(log):
        spark = demo_report.start()
    _listen_to_signals()  # Spark's own handler would ask the JVM, in the middle of a call
    return spark


@contextlib.contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """Redirect standard error to the file; processes started meanwhile keep writing there."""
    kept = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def equation(played: Played, numbers: Numbers) -> str:
    """Return the numbers that must be equal, in one line."""
    return (
        f"{played.published:,} published = {numbers.settled:,} settled by {DISPATCHERS} = "
        f"{numbers.pending(_id(AUDITORS)):,} pending for {AUDITORS} = "
        f"{numbers.messages:,} rows of messages"
    )


def off(flights: int, played: Played, numbers: Numbers) -> str:
    """Return which number is off and by how much; '' if all are right."""
    lost = sum(worker.lost for worker in numbers.workers)
    rules = (
        ("published", played.published, flights),
        (f"settled by {DISPATCHERS}", numbers.settled, flights),
        ("accepted deliveries in acks", _accepted(numbers), flights),
        (f"pending for {DISPATCHERS}", numbers.pending(_id(DISPATCHERS)), 0),
        (f"pending for {AUDITORS}", numbers.pending(_id(AUDITORS)), flights),
        ("rows of messages", numbers.messages, flights),
        ("rows of messages that could not be decoded", numbers.undecodable, 0),
        ("lost with the killed worker", lost, played.held),
    )
    wrong = [
        f"{what} is {found:,} and must be {wanted:,}"
        for what, found, wanted in rules
        if found != wanted
    ]
    if not wrong and not lost:
        wrong = ["the killed worker held nothing"]
    return "the numbers do not agree: " + "; ".join(wrong) if wrong else ""


def _accepted(numbers: Numbers) -> int:
    return sum(worker.accepted for worker in numbers.workers)


def _as_json(played: Played, numbers: Numbers, phases: Phases) -> dict[str, object]:
    return {
        "published": played.published,
        "settled": numbers.settled,
        "pending": {one.subscription: one.pending for one in numbers.cursors},
        "messages": numbers.messages,
        "held_by_the_killed": played.held,
        **{key: value for key, value in asdict(numbers).items() if isinstance(value, tuple)},
        "seconds": phases.seconds,
    }
