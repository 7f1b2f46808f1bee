"""Gateways that are started alike spread a lake's logs over their machines, and stop there."""

from collections import Counter
from pathlib import Path

from gateway_machines import Machines
from gateway_process import Gateway, until

from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.tables.lake.disk_lake import DiskLake

FLEET: dict[str, object] = {"spread": True, "spread_rest_ms": 1_500}
LOGS = ("main", "orders", "prices")


def spread_over(machines: Machines, counts: dict[str, int]) -> bool:
    """Whether each machine has so many logs."""
    owners = [owner for owner, _ in machines.listed().values()]
    return None not in owners and Counter(owners) == Counter(counts)


def started(machines: Machines, machine: str, fleet: dict[str, object] = FLEET) -> list[Gateway]:
    """Two gateways of a machine, as an operator starts them everywhere."""
    found = []
    for _ in range(2):
        gateway = machines.gateway(machine, "--log", "any", "--standby", fleet=fleet)
        gateway.spawn()
        found.append(gateway)
    return found


def moved(gateways: list[Gateway]) -> int:
    return sum(len(one.events("log.given")) for one in gateways)


def test_logs_go_to_a_machine_that_joins_and_away_from_one_that_dies(
    machines: Machines, tmp_path: Path
) -> None:
    """One at a time, and no more often than it must be."""
    lake = DiskLake(tmp_path / "lake")
    lake.replace(lake.placement(), Placement(2, LOGS))
    first, second = started(machines, "a"), started(machines, "b")
    gateways = [*first, *second]
    until(lambda: None not in dict(machines.listed().values()), "owners of all logs", every=0.5)
    third = started(machines, "c")
    gateways += third
    until(lambda: spread_over(machines, {"a": 1, "b": 1, "c": 1}), "one each", every=0.5)
    order = lake.move()
    assert order is not None
    assert (order.state, order.by) == ("done", "spreading")
    moves = moved(gateways)
    assert moves in {1, 2}  # a had two, or b, or a lost a log to b before c came
    for gateway in third:
        gateway.kill()
    until(
        lambda: spread_over(machines, {"a": 2, "b": 1}) or spread_over(machines, {"a": 1, "b": 2}),
        "two have all",
        every=0.5,
    )
    pinned = machines.standby("d", "prices")
    rested = [one for one in gateways if one.running]
    beats = {one.number: one.beat for one in lake.members()}
    until(
        lambda: all(one.beat > beats.get(one.number, 0) + 20 for one in lake.members()),
        "twenty signs of life of each",
        every=0.2,
    )
    assert moved(gateways) == moves, "to one that doesn't spread, or without need"
    for gateway in (*rested, pinned):
        gateway.stop()


def test_a_machine_without_weight_gives_what_it_has(machines: Machines) -> None:
    heavy = started(machines, "a", {**FLEET, "weight": 0})
    until(lambda: spread_over(machines, {"a": 2}), "owners", every=0.5)
    other = started(machines, "b")
    until(lambda: spread_over(machines, {"b": 2}), "all of it at b", every=0.5)
    for gateway in (*heavy, *other):
        gateway.stop()
