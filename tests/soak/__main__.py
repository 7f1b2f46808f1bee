"""The long run of the models: `python -m tests.soak --seed 7 --seconds 3600`. Rounds of the state
machines and random histories, each with a seed of its own, until the time is over or one fails.

`--models typed` runs those alone that have this in their names. Ten thousand evolutions of schemas
are twenty rounds of them.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: What is run: each holds a part of the engine against a model that is as plain as can be.
MODELS: Final = (
    "tests/pipeline/dispatch/test_dispatcher.py",
    "tests/pipeline/dispatch/test_delivery_rules.py",
    "tests/pipeline/dispatch/test_dispatcher_view.py",
    "tests/pipeline/dispatch/test_retired.py",
    "tests/pipeline/log/test_transaction.py",
    "tests/pipeline/log/test_duplicates.py",
    "tests/pipeline/log/test_backlog_counter.py",
    "tests/pipeline/sequences/test_sequence_set.py",
    "tests/pipeline/log/test_cursor.py",
    "tests/pipeline/log/test_recent_messages.py",
    "tests/pipeline/tables/verify/test_verify_histories.py",
    "tests/pipeline/transforms/typed/test_typed_rows.py",
    "tests/pipeline/transforms/typed/test_body_reader.py",
)
#: Evolutions of a round.
EVOLUTIONS: Final = 500
#: A round takes about half a minute, and many times that on a busy machine; one that takes so long
#: hangs. A test of it may take all of that, where pytest gives others 300 seconds.
ROUND_SECONDS_MAX: Final = 1_800


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=7, help="the first round's; each adds one")
    parser.add_argument("--seconds", type=int, default=3600, help="no round begins after them")
    parser.add_argument("--models", default="", help="those with this in their names; else all")
    said = parser.parse_args()
    if not any(said.models in one for one in MODELS):
        parser.error(f"no model has {said.models!r} in its name: {', '.join(MODELS)}")
    return said


def _round(seed: int, models: Sequence[str]) -> tuple[bool, int, int, str]:
    """Whether all held, examples of Hypothesis, histories, and what was printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [
        f"--timeout={ROUND_SECONDS_MAX}",
        f"--hypothesis-seed={seed}",
        "--hypothesis-show-statistics",
        "-rA",
        *models,
    ]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env={
            **os.environ,
            "HISTORIES_SEED": str(seed),
            "TYPED_EVOLUTIONS": str(EVOLUTIONS),
        },
        capture_output=True,
        text=True,
        timeout=ROUND_SECONDS_MAX,
        check=False,
    )
    examples = sum(map(int, re.findall(r"(\d+) passing", run.stdout)))
    histories = len(re.findall(r"^PASSED \S+histor\S+\[", run.stdout, re.MULTILINE))
    return run.returncode == 0, examples, histories, run.stdout + run.stderr


def main() -> int:
    """Rounds, one after the other; the exit code."""
    said = _arguments()
    began, seed = time.monotonic(), said.seed
    models = [one for one in MODELS if said.models in one]
    examples = histories = 0
    while time.monotonic() - began < said.seconds:
        held, more, lived, printed = _round(seed, models)
        examples, histories = examples + more, histories + lived
        minutes = (time.monotonic() - began) / 60
        print(  # noqa: T201
            f"seed {seed}: {examples:,} examples, {histories:,} histories, {minutes:.0f} min",
            flush=True,
        )
        if not held:
            print(printed)  # noqa: T201
            again = f"make soak SEED={seed} SECONDS=1 MODELS={said.models}"
            print(f"seed {seed} failed; again: {again}")  # noqa: T201
            return 1
        seed += 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
