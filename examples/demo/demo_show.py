"""The demo's numbers as tables on the screen, and its picture."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from examples.demo.demo_report import BUCKETS, Carrier, Cursor, Numbers, Pace, Worker


def draw(pace: Pace, numbers: Numbers, colours: Mapping[str, str], file: Path) -> None:
    """Draw the picture: messages per second of each worker, one band for each."""
    mpl.use("Agg")
    accepted = {worker.name: worker.accepted for worker in numbers.workers}
    figure = Figure(figsize=(10, 5.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    base = [0.0] * BUCKETS
    for name, rates in pace.rates.items():
        above = [below + rate / 1_000 for below, rate in zip(base, rates, strict=True)]
        axes.stairs(
            above,
            pace.seconds,
            baseline=base,
            fill=True,
            color=colours.get(name, "#888888"),
            label=f"{name} ({accepted.get(name, 0):,})",
        )
        base = above
    axes.set_ylim(0, max(base) * 1.2 or 1.0)
    axes.set_xlim(0, pace.seconds[-1])
    for worker in numbers.workers:
        if pace.lost is not None and worker.lost:
            _mark(figure, pace.lost, worker)
    axes.set_title(
        f"{numbers.settled:,} flights, dealt in turn to the workers of one subscription",
        loc="left",
        fontweight="bold",
    )
    axes.set_xlabel("seconds since the first delivery")
    axes.set_ylabel("deliveries accepted, thousands per second")
    axes.grid(axis="y", color="#000000", alpha=0.12)
    axes.set_axisbelow(False)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(file)


def _mark(figure: Figure, at: float, worker: Worker) -> None:
    """Draw a line where a worker was lost, and the number of its messages that others took."""
    axes = figure.axes[0]
    left, right = axes.get_xlim()
    axes.axvline(at, color="#222222", linestyle="--", linewidth=1.2)
    before = at > (left + right) / 2
    axes.annotate(
        f"{worker.name} is killed, holding {worker.lost:,} messages:\n"
        "they go back in their places and to the others",
        xy=(at, 0.97),
        xycoords=("data", "axes fraction"),
        xytext=(-8 if before else 8, 0),
        textcoords="offset points",
        ha="right" if before else "left",
        va="top",
        fontsize=9,
    )


def show(console: Console, numbers: Numbers, colours: Mapping[str, str]) -> None:
    """Print the numbers as tables."""
    for table in (
        _workers_table(numbers.workers, colours),
        _cursors_table(numbers.cursors),
        _carriers_table(numbers.carriers),
    ):
        console.print()
        console.print(table)


def _plain(title: str, first: str, others: Iterable[str]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", header_style="dim", box=SIMPLE
    )
    table.add_column(first, no_wrap=True)
    for other in others:
        table.add_column(other, justify="right")
    return table


def _workers_table(workers: Iterable[Worker], colours: Mapping[str, str]) -> Table:
    table = _plain(
        "Deliveries of 'dispatchers' per worker (from acks)",
        "worker",
        ("accepted", "held when killed", "taken over"),
    )
    for worker in workers:
        colour = colours.get(worker.name, "default")
        table.add_row(
            f"[{colour}]{worker.name}[/]",
            f"{worker.accepted:,}",
            f"[red]{worker.lost:,}[/]" if worker.lost else "",
            f"{worker.took_over:,}" if worker.took_over else "",
        )
    return table


def _cursors_table(cursors: tuple[Cursor, ...]) -> Table:
    version = min((one.log_version for one in cursors), default=0)
    table = _plain(
        f"Where each durable subscription stands at log version {version:,} (from cursors)",
        "subscription",
        ("floor", "settled above", "accepted", "released", "pending"),
    )
    for one in cursors:
        numbers = (one.floor, one.settled_above, one.accepted, one.released, one.pending)
        table.add_row(one.subscription, *(f"{n:,}" for n in numbers))
    return table


def _carriers_table(carriers: Iterable[Carrier]) -> Table:
    table = _plain(
        "Flights per carrier (from messages, by their typed properties)",
        "carrier",
        ("flights", "miles", "mean departure delay", "never left"),
    )
    for one in carriers:
        table.add_row(
            one.name,
            f"{one.flights:,}",
            f"{one.miles:,}",
            f"{one.delay_minutes:.1f} min",
            f"{one.unflown:,}",
        )
    return table
