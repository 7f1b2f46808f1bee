"""From measurements to rows, and from rows to a table on the screen, a page and a file."""

import json
import os
import platform
import re
import statistics
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from tests.bench.bench import Measurement
from tests.bench.cases import Budget, Case

#: What each column means, in the order of the table.
COLUMNS = ("case", "messages/s", "CPU us", "p50 ms", "p99 ms", "RSS MB", "stall ms", "budget")

#: The end of a failure's reason that the table shows, in characters.
REASON_LENGTH_MAX = 160

Row = dict[str, object]


def row(case: Case, measurement: Measurement) -> Row:
    """One element of bench.json. Numbers that were not measured are None."""
    messages = measurement.messages
    cpu = measurement.cpu
    latencies = sorted(measurement.latencies_ms)
    found: Row = {
        "case": case.name,
        "messages_per_second": round(statistics.median(measurement.rates or [0])) or None,
        "cpu_us_per_message": _rounded(1e6 * cpu.total / messages if cpu and messages else None, 2),
        "p50_ms": _rounded(_quantile(latencies, 0.50), 3),
        "p99_ms": _rounded(_quantile(latencies, 0.99), 3),
        "rss_mb": _rounded(measurement.rss_mb, 1),
        "stall_ms": _rounded(measurement.stall_ms, 1),
        "client_cpu_us_per_message": _rounded(
            1e6 * measurement.client_cpu_seconds / messages if messages else None, 2
        ),
        "runs": [round(rate) for rate in measurement.rates],
        "stages": {},
        "facts": {name: round(value, 2) for name, value in measurement.facts.items()},
    }
    if cpu is not None and messages:
        found["stages"] = {
            name: round(1e6 * used / messages, 2)
            for name, used in sorted(cpu.threads.items(), key=lambda item: -item[1])
        }
    return found


def failure(case: Case, reason: str) -> Row:
    """The element of a case that could not be measured: nothing but its name and the reason."""
    keys = ("messages_per_second", "cpu_us_per_message", "p50_ms", "p99_ms", "rss_mb", "stall_ms")
    return {"case": case.name, **dict.fromkeys(keys), "stages": {}, "facts": {}, "error": reason}


def verdict(budget: Budget, found: Row) -> str:
    """`met` or `not met` with what was asked; '' where nothing is asked."""
    asked = (
        ("messages_per_second", budget.messages_per_second_min, "{:,.0f}/s", 1),
        ("p50_ms", budget.p50_ms_max, "p50 {} ms", -1),
        ("stall_ms", budget.stall_ms_max, "stall {} ms", -1),
        ("rss_mb", budget.rss_mb_max, "RSS {} MB", -1),
    )
    parts = []
    for key, limit, text, sense in asked:
        if limit is not None:
            value = found[key]
            met = isinstance(value, int | float) and (value - limit) * sense >= 0
            parts.append(("met" if met else "not met") + f" ({text.format(limit)})")
    facts = found["facts"]
    assert isinstance(facts, dict)
    for name, limit in budget.facts_max.items():
        met = name in facts and facts[name] <= limit
        parts.append(("met" if met else "not met") + f" ({name} {limit:g})")
    return ", ".join(parts)


def cells(case: Case, found: Row) -> list[str]:
    if "error" in found:
        reason = " ".join(str(found["error"]).split())  # the file has it whole
        return [case.name, "failed", "", "", "", "", "", reason[-REASON_LENGTH_MAX:]]
    keys = ("cpu_us_per_message", "p50_ms", "p99_ms", "rss_mb", "stall_ms")
    rate = f"{found['messages_per_second']:,}" if found["messages_per_second"] else ""
    rest = ["" if found[key] is None else str(found[key]) for key in keys]
    return [case.name, rate, *rest, verdict(case.budget, found)]


def screen(rows: Sequence[tuple[Case, Row]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in COLUMNS:
        left = column in ("case", "budget")
        table.add_column(column, justify="left" if left else "right", no_wrap=column != "budget")
    for case, found in rows:
        table.add_row(*cells(case, found))
    return table


def facts(rows: Sequence[tuple[Case, Row]]) -> Table:
    """The figures that only single cases measure."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("case")
    table.add_column("measured")
    for case, found in rows:
        if found["facts"]:
            table.add_row(case.name, _facts_text(found))
    return table


def stages(rows: Sequence[tuple[Case, Row]]) -> Table:
    """The server's use of CPU: microseconds per message and thread."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("case")
    table.add_column("CPU us per message by thread")
    for case, found in rows:
        table.add_row(case.name, _stages_text(found))
    return table


def markdown(rows: Sequence[tuple[Case, Row]], folder: Path) -> str:
    lines = [machine(folder), "", "| " + " | ".join([*COLUMNS, "by thread, us"]) + " |"]
    lines.append("|---" * (len(COLUMNS) + 1) + "|")
    for case, found in rows:
        lines.append("| " + " | ".join([*cells(case, found), _stages_text(found)]) + " |")
    lines += ["", "| case | measured |", "|---|---|"]
    lines += [f"| {case.name} | {_facts_text(found)} |" for case, found in rows if found["facts"]]
    return "\n".join(lines)


def write(path: Path, rows: Sequence[tuple[Case, Row]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([found for _, found in rows], indent=2) + "\n")


def machine(folder: Path) -> str:
    """The facts that the numbers depend on, in one sentence."""
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*:\s*(.+)", info)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    parts = [
        model[1] if model else platform.machine(),
        f"{len(os.sched_getaffinity(0))} cores shared with the load clients",
        f"{memory:.0f} GB",
        f"Linux {platform.release()}",
        f"Python {platform.python_version()}",
        f"journal and tables on {filesystem(folder)}",
    ]
    return "Measured on: " + ", ".join(parts) + "."


def filesystem(folder: Path) -> str:
    """The kind of filesystem that the folder lies on."""
    kind, longest = "unknown", -1
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, found = line.split()[:3]
        if folder.resolve().is_relative_to(mount) and len(mount) >= longest:
            kind, longest = found, len(mount)
    return kind


def _stages_text(found: Row) -> str:
    parts = found["stages"]
    assert isinstance(parts, dict)
    return ", ".join(f"{name} {used}" for name, used in parts.items() if used)


def _facts_text(found: Row) -> str:
    values = found["facts"]
    assert isinstance(values, dict)
    return ", ".join(f"{name} {value:,g}" for name, value in values.items())


def _quantile(ascending: Sequence[float], share: float) -> float | None:
    """The value that so large a share of the values does not exceed; None for no values."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))] if ascending else None


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
