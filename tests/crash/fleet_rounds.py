"""Harms to a fleet of gateways, by lot: `python -m tests.crash.fleet_rounds --rounds 100`, or one
round again: `--round 33`. What a failed round leaves is in build/fleet-rounds.

Each gateway and the store have a network namespace of their own, where this may make some (root);
else nothing is partitioned but the way of a gateway to the store.
"""

import argparse
import random
import shutil
import statistics
import sys
import traceback
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "fleet-rounds"
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "crash"), str(ROOT / "tests" / "support")]

from checker import Report  # noqa: E402 (found by what stands above)
from faulty_s3 import drawn_plan  # noqa: E402
from fleet_harms import Back, Harm, HarmedFleet  # noqa: E402
from namespaces import Network, allowed  # noqa: E402
from round_process import run_round  # noqa: E402

HARMS = 6
ROUND_SECONDS_MAX = 900
#: How often the store fails, by lot.
RATES = (0.0, 0.0, 0.005)


def run(
    folder: Path, draw: random.Random, harms: Sequence[Harm], network: Network | None = None
) -> tuple[Report, list[Back]]:
    """One fleet's life with these harms; what its clients saw, judged, and how soon it was back
    after each."""
    with HarmedFleet(folder, draw, network) as world:
        world.begin()
        for harm in harms:
            world.fail(drawn_plan(draw, RATES))
            world.harm(harm)
        report = world.finish()
    assert report.sound, str(report)
    return report, world.backs


def one(seed: int, number: int, times: int, *, parted: bool) -> int:
    """Run one round here; the exit code."""
    folder = KEPT / f"round-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    draw = random.Random(f"{seed}/{number}")
    harms = draw.choices([harm for harm in Harm if parted or not harm.of_network], k=times)
    try:
        with Network() if parted else nullcontext() as network:
            report, backs = run(folder, draw, harms, network)
    except Exception as error:  # noqa: BLE001 (whatever it is, the round has failed)
        traceback.print_exc()
        print(f"harms {', '.join(harms)}")  # noqa: T201
        print(str(error).strip().splitlines()[0] if str(error) else repr(error))  # noqa: T201
        return 1
    shutil.rmtree(folder)
    said = ", ".join(f"{back.harm} {back.seconds:.2f} {back.attached:.2f}" for back in backs)
    print(f"{report}; seconds {said}")  # noqa: T201
    return 0


def _run(seed: int, number: int, times: int) -> tuple[int, int, str]:
    words = ("--seed", seed, "--times", times)
    return number, *run_round(__file__, KEPT, number, *words, seconds=ROUND_SECONDS_MAX)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.fleet_rounds", description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--round", type=int, help="run this one alone, in this process")
    parser.add_argument("--times", type=int, default=HARMS, help="harms in a round")
    parser.add_argument("--jobs", type=int, default=2, help="rounds at the same time")
    said = parser.parse_args()
    parted = allowed()
    if said.round is not None:
        return one(said.seed, said.round, said.times, parted=parted)
    if not parted:
        print("No network namespaces without root: a gateway is parted from the store alone.")  # noqa: T201
    failed, seconds = 0, defaultdict[str, list[tuple[float, float]]](list)
    with ThreadPoolExecutor(said.jobs) as pool:
        rounds = [pool.submit(_run, said.seed, n, said.times) for n in range(said.rounds)]
        for done in as_completed(rounds):
            number, code, words = done.result()
            failed += code != 0
            print(f"round {number} {'failed' if code else 'passed'}: {words}", flush=True)  # noqa: T201
            for back in words.partition("; seconds ")[2].split(", ") if not code else ():
                harm, took, attached = back.rsplit(" ", 2)
                seconds[harm].append((float(took), float(attached)))
    print(f"{said.rounds - failed} passed, {failed} failed")  # noqa: T201
    for harm, pairs in sorted(seconds.items()):
        backs, attached = (
            f"{statistics.median(took):.2f} s in the middle, {max(took):.2f} at most"
            for took in zip(*pairs, strict=True)
        )
        print(f"{harm}, {len(pairs)}: back after {backs}; all clients attached after {attached}")  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
