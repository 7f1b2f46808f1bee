"""Take-overs of a home without a disk, by lot: `python -m tests.crash.take_overs --rounds 100`,
ten in each, or one round again: `--round 33`. What a failed round leaves is in build/take-overs.
"""

import argparse
import random
import shutil
import statistics
import sys
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "take-overs"
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "crash"), str(ROOT / "tests" / "support")]

from checker import Report  # noqa: E402 (found by what stands above)
from faulty_s3 import Plan, drawn_plan  # noqa: E402
from round_process import run_round  # noqa: E402
from store_world import HARMS, OwnerLost, StoreWorld  # noqa: E402

#: The lease is the default's.
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "journal": {"put_ms_max": 1_000, "put_linger_ms": 2, "put_settlement_linger_ms": 5},
    "commit": {"interval_ms": 200},
}
#: Of every second round: groups are full before their time, and wait for a place among the puts.
FULL: Mapping[str, object] = {"put_bytes": 65_536, "put_linger_ms": 100, "puts_max": 3}
TAKE_OVERS = 10
ROUND_SECONDS_MAX = 900
#: How often the store fails, by lot.
RATES = (0.0, 0.005, 0.02)


def run(
    folder: Path,
    draw: random.Random,
    harms: Sequence[str],
    settings: Mapping[str, Mapping[str, object]] = SETTINGS,
) -> tuple[Report, list[float]]:
    """One home's take-overs after these harms; what its clients saw, judged, and the seconds of
    each."""
    with StoreWorld(folder, draw, settings=settings, slow=True) as world:
        assert world.start()
        world.work_for(10)
        world.stand_by()
        world.restless = False
        for harm in harms:
            world.fail(drawn_plan(draw, RATES))
            try:
                world.work_for(draw.randrange(2, 12))
            except OwnerLost:  # the store failed it for too long, or the machine had no time
                world.take_over("lost")
            else:
                world.take_over(harm)
        world.fail(Plan())
        world.settle_down()
        report = world.finish()
    assert report.sound, str(report)
    return report, world.seconds


def one(seed: int, number: int, times: int) -> int:
    """Run one round here; the exit code."""
    folder = KEPT / f"round-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        draw = random.Random(f"{seed}/{number}")
        journal = {**SETTINGS["journal"], **(FULL if number % 2 else {})}
        settings = {**SETTINGS, "journal": journal}
        report, seconds = run(folder, draw, draw.choices(HARMS, k=times), settings)
    except Exception as error:  # noqa: BLE001 (whatever it is, the round has failed)
        traceback.print_exc()
        print(str(error).strip().splitlines()[0] if str(error) else repr(error))  # noqa: T201
        return 1
    shutil.rmtree(folder)
    print(f"{report}; seconds {' '.join(f'{one:.2f}' for one in seconds)}")  # noqa: T201
    return 0


def _run(seed: int, number: int, times: int) -> tuple[int, int, str]:
    words = ("--seed", seed, "--times", times)
    return number, *run_round(__file__, KEPT, number, *words, seconds=ROUND_SECONDS_MAX)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.take_overs", description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--round", type=int, help="run this one alone, in this process")
    parser.add_argument("--times", type=int, default=TAKE_OVERS, help="take-overs in a round")
    parser.add_argument("--jobs", type=int, default=2, help="rounds at the same time")
    said = parser.parse_args()
    if said.round is not None:
        return one(said.seed, said.round, said.times)
    failed, seconds = 0, [0.0]
    with ThreadPoolExecutor(said.jobs) as pool:
        rounds = [pool.submit(_run, said.seed, n, said.times) for n in range(said.rounds)]
        for done in as_completed(rounds):
            number, code, words = done.result()
            failed += code != 0
            print(f"round {number} {'failed' if code else 'passed'}: {words}", flush=True)  # noqa: T201
            seconds += map(float, words.partition("; seconds ")[2].split())
    print(  # noqa: T201
        f"{said.rounds - failed} passed, {failed} failed; {len(seconds) - 1} take-overs, "
        f"{statistics.median(seconds):.2f} s in the middle, {max(seconds):.2f} s at most"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
