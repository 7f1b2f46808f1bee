"""The long crash run: `python -m tests.crash --seed 7 --rounds 200`, or one round of it again:
`--round 133`. What a failed round leaves lies under build/crash."""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "crash"
#: Seconds that one round may take; it takes five to twenty, minutes with Spark, and many times as
#: much on a machine that has other things to do.
ROUND_SECONDS_MAX = 3_600
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "crash"), str(ROOT / "tests" / "support")]

import rounds  # noqa: E402 (found by what stands above)
import scenarios  # noqa: E402


@dataclass(frozen=True, slots=True)
class Outcome:
    """One round that was run: its number, its exit code, and its last words."""

    number: int
    code: int
    said: str

    @property
    def folder(self) -> Path:
        return KEPT / f"round-{self.number}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--seed", type=int, default=rounds.DEFAULT_SEED)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--round", type=int, help="run this one alone, in this process")
    parser.add_argument("--jobs", type=int, default=2, help="rounds at the same time")
    return parser.parse_args()


def one(seed: int, number: int) -> int:
    """Run one round here; the exit code."""
    draw = random.Random(f"{seed}/{number}")
    kind, scenario = rounds.drawn(draw)
    folder = KEPT / f"round-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        report = scenarios.run(scenario, folder, draw)
    except Exception as error:  # noqa: BLE001 (whatever it is, the round has failed)
        traceback.print_exc()
        print(f"{kind}: {str(error).strip().splitlines()[0] if str(error) else error!r}")  # noqa: T201
        return 1
    shutil.rmtree(folder)
    print(f"{kind}: {report}")  # noqa: T201
    return 0


def _run(seed: int, number: int) -> Outcome:
    """Run one round in a process of its own."""
    command = [sys.executable, __file__, "--seed", str(seed), "--round", str(number)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, complaints = process.communicate(timeout=ROUND_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, complaints = f"not over after {ROUND_SECONDS_MAX} s", ""
        process.wait()
    outcome = Outcome(number, process.returncode, ((said or complaints).splitlines() or ["?"])[-1])
    if outcome.code:
        outcome.folder.mkdir(parents=True, exist_ok=True)
        (outcome.folder / "failure.txt").write_text(said + complaints)
    return outcome


def _outcomes(seed: int, count: int, jobs: int) -> Iterator[Outcome]:
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(_run, seed, n) for n in range(count)]):
            yield future.result()


def main() -> int:
    arguments = _arguments()
    if arguments.round is not None:
        return one(arguments.seed, arguments.round)
    failed = 0
    console = Console(highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task(f"seed {arguments.seed}", total=arguments.rounds)
        for outcome in _outcomes(arguments.seed, arguments.rounds, arguments.jobs):
            bar.advance(task)
            failed += outcome.code != 0
            mark = "failed" if outcome.code else "passed"
            bar.console.print(
                f"round {outcome.number} {mark}: {outcome.said}", markup=False, soft_wrap=True
            )
            if outcome.code:
                again = f"make crash SEED={arguments.seed} ROUND={outcome.number}"
                bar.console.print(
                    f"  again: {again}; kept: {outcome.folder}", markup=False, soft_wrap=True
                )
    console.print(f"{arguments.rounds - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
