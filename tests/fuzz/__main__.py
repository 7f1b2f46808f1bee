"""Random conversations against a gateway whose C is compiled with sanitizers: `python -m tests.fuzz
--seed 7 --rounds 20`, or one round again: `--round 3`, or a transcript: `--replay FILE`. What fails
is made small and kept under build/fuzz."""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "fuzz"
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "fuzz"), str(ROOT / "tests" / "support")]

import fuzz_sanitized as sanitized  # noqa: E402 (found by what stands above)
import fuzz_transcript as transcript  # noqa: E402
from fuzz_cells import CELLS, Cell  # noqa: E402
from fuzz_round import Finding, Place, Tried, conversation, frames_of  # noqa: E402
from fuzz_transcript import Act  # noqa: E402
from fuzz_trials import Trials, together  # noqa: E402

#: Conversations that may have played a part in a failure, besides the one in which it showed.
SUSPECTS = 30
#: In every round of so many peers must log in.
WITH_USERS = 4


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, default=7)
    add("--rounds", type=int, default=20)
    add("--round", type=int, help="this one alone")
    add("--frames", type=int, default=20_000, help="frames of a round, about")
    add("--seconds", type=float, default=0.0, help="begin no round after so many; 0: no limit")
    add("--plain", action="store_true", help="the normal build, without sanitizers")
    add("--users", action="store_true", help="where peers must log in, for --replay")
    add("--replay", type=Path, help="play this transcript, and judge")
    return parser.parse_args()


@dataclass
class Run:
    """All rounds so far."""

    environment: Mapping[str, str]
    cells: Counter[Cell] = field(default_factory=Counter)
    frames: int = 0
    conversations: int = 0
    failed: int = 0

    def round(self, seed: int, number: int, frames: int) -> str:
        """One round; what it says of itself."""
        dice = random.Random(f"{seed}/{number}")
        until_frames, recent = self.frames + frames, []
        began = self.frames
        users = number % WITH_USERS == WITH_USERS - 1
        gateway = Tried(Place(KEPT / f"round-{number}", self.environment, users))
        try:
            with gateway:
                while self.frames < until_frames:
                    acts = conversation(dice, self.cells, users=users)
                    recent = [*recent[-SUSPECTS:], acts]
                    self.frames += frames_of(acts)
                    self.conversations += 1
                    gateway.converse(acts)
                gateway.end()
        except Finding as finding:
            self.failed += 1
            print(f"round {number} has found: {finding}", flush=True)  # noqa: T201
            return f"failed\n{self._kept(seed, number, recent, finding, users)}"
        return f"passed: {self.frames - began:,} frames; the witness {gateway.said.strip()}"

    def _kept(
        self, seed: int, number: int, recent: list[list[Act]], finding: Finding, users: bool
    ) -> str:
        """Make what led to it small, and write it down; what became of that."""
        log = KEPT / f"round-{number}" / "gateway.log"
        (KEPT / f"round-{number}.log").write_bytes(log.read_bytes()[-1_000_000:])
        path = KEPT / f"seed-{seed}-round-{number}.txt"
        remark = f"seed {seed}, round {number}: {finding}"[:2_000]
        path.write_text(transcript.text(together(recent), remark))
        with Trials(Place(KEPT / "trial", self.environment, users), finding.kind) as trials:
            acts, again = trials.small(recent)
        path.write_text(transcript.text(acts, remark))
        said = "fails again" if again else "does not fail again by itself"
        return f"  {said} with {len(acts)} acts: {path}"


def _replayed(place: Place, path: Path) -> int:
    try:
        with Tried(place) as gateway:
            gateway.converse(transcript.read(path))
            gateway.end()
    except Finding as finding:
        print(f"{path}: {finding}")  # noqa: T201
        return 1
    print(f"{path}: all is well")  # noqa: T201
    return 0


def main() -> int:
    arguments = _arguments()
    KEPT.mkdir(parents=True, exist_ok=True)
    try:
        environment = {} if arguments.plain else sanitized.environment(sanitized.build())
    except sanitized.NoSanitizer as error:
        sys.stderr.write(f"{error}\nWithout sanitizers: python -m tests.fuzz --plain\n")
        return 2
    if arguments.replay:
        return _replayed(Place(KEPT / "replay", environment, arguments.users), arguments.replay)
    run, began = Run(environment), time.monotonic()
    numbers = range(arguments.rounds) if arguments.round is None else [arguments.round]
    for number in numbers:
        if arguments.seconds and time.monotonic() - began > arguments.seconds:
            break
        said = run.round(arguments.seed, number, arguments.frames)
        print(f"round {number} {said}", flush=True)  # noqa: T201
    seen = [cell for cell in CELLS if run.cells[cell]]
    took = time.monotonic() - began
    print(  # noqa: T201
        f"seed {arguments.seed}: {run.frames:,} frames in {run.conversations:,} conversations, "
        f"{took:.0f} s; {len(seen)} of {len(CELLS)} cells; {run.failed} rounds failed"
    )
    for cell in set(CELLS) - set(seen):
        print(f"  never said: {cell}")  # noqa: T201
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
