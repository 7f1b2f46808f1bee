"""`distributary log move`: a log goes to a gateway that stands by and is named, and back again."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from async_client import run
from async_client import until as in_time
from faulty_s3 import FaultyS3
from fork_server import commands
from gateway_fleet import PLACEMENT
from gateway_load import Load
from gateway_machines import Machines
from gateway_process import Gateway, until

from distributary.pipeline.tables.lake.object_lake import ObjectLake
from distributary.pipeline.tables.object_home.object_home import ObjectHome

Make = Callable[..., Gateway]
QUEUE = "queue://orders.work"


def test_a_log_moves_to_a_named_machine_and_back_under_load(machines: Machines) -> None:
    """Clients of another gateway notice a pause: nothing is lost, and what comes again is marked.
    The former owner stands by, is listed so, and can have the log again."""
    main, first = machines.owner("a", "main"), machines.owner("a", "orders")
    second, third = machines.standby("b", "orders"), machines.standby("c", "orders")
    work = Load(QUEUE, main.port)

    async def moves() -> None:
        for to, log_of in (("b", second), (f"127.0.0.1:{third.port}", third), ("a", first)):
            await work.more()
            told, served = len(log_of.events("log.moved")), len(log_of.events("listening"))
            said = await asyncio.to_thread(machines.move, "orders", to)
            assert (said["state"], said["by"]) == ("done", "operator")
            await _said(log_of, told + 1)
            assert len(log_of.events("listening")) == served + 1
            await work.more()
        work.over = True

    async def whole() -> None:
        consuming = asyncio.create_task(work.consume())
        await asyncio.gather(moves(), work.publish("x"), work.publish("y"))
        await work.all_of_it()
        consuming.cancel()
        await asyncio.gather(consuming, return_exceptions=True)

    run(whole())
    assert not work.unmarked
    for name in "xy":
        firsts = [int(one[2:]) for one in dict.fromkeys(work.came) if one[0] == name]
        assert firsts == sorted(firsts)
    assert machines.listed() == {"main": ("a", []), "orders": ("a", ["b", "c"])}
    for gateway in (second, third):
        assert len(gateway.events("log.given")) == 1
        gateway.stop()
    first.stop()
    main.stop()
    done = commands().run("verify", "--home", machines.address, "--deep")
    assert done.returncode == 0, done.stdout + done.stderr


async def _said(gateway: Gateway, times: int) -> None:
    """It says behind the order's end that it has the log."""
    await in_time(lambda: len(gateway.events("log.moved")) >= times, "the heir says it")
    assert len(gateway.events("log.moved")) == times


def test_an_heir_that_hangs_gets_nothing(machines: Machines) -> None:
    """The owner serves on: its clients notice nothing."""
    main, owner = machines.owner("a", "main"), machines.owner("a", "orders")
    heir = machines.standby("b", "orders")
    assert heir.process is not None
    until(lambda: machines.listed()["orders"] == ("a", ["b"]), "its standby")
    os.kill(heir.process.pid, signal.SIGSTOP)
    try:
        done = machines.ask("move", "orders", "b", code=4)
    finally:
        os.kill(heir.process.pid, signal.SIGCONT)
    assert "Its owner serves on" in done.stderr or "no gateway called b" in done.stderr
    assert not owner.events("log.given")
    assert len(main.events("relay.lost")) == 0
    assert machines.move("orders", "b")["machine"] == "b"
    for gateway in (heir, owner, main):
        gateway.stop()


def test_what_can_not_be_moved_is_said_in_one_sentence(machines: Machines) -> None:
    def refused(*words: object, code: int = 4) -> str:
        done = machines.ask("move", *words, code=code)
        assert done.stderr.count("\n") == 1
        return done.stderr

    assert "has no log paid: there are main, orders" in refused("paid", "b", code=2)
    assert "orders has no owner that could give it" in refused("orders", "b")
    owner = machines.owner("a", "orders")
    until(lambda: machines.listed()["orders"] == ("a", []), "its owner")
    assert "no gateway called b stands by for orders. There is no gateway at all" in refused(
        "orders", "b"
    )
    main = machines.owner("b", "main")
    until(lambda: machines.listed()["main"] == ("b", []), "the other owner")
    assert "There is no gateway at all" in refused("orders", "b"), "it waited for another log"
    assert "orders is at a already" in refused("orders", "a")
    other = machines.standby("c")
    until(lambda: machines.listed()["orders"] == ("a", ["c"]), "its standby")
    assert f"There is amqp://127.0.0.1:{other.port} on c; start one" in refused("orders", "b")
    for gateway in (owner, main, other):
        gateway.stop()


def test_a_gateway_that_gave_its_log_ends_when_it_is_told_to(
    machines: Machines, tmp_path: Path
) -> None:
    """It ends as any standby does; a killed one is a standby no more. A settings file that became
    unreadable doesn't end it: as while it served, the earlier content holds."""
    policies = tmp_path / "policies.toml"
    policies.write_text("")
    owner = machines.gateway("a", "--log", "orders")
    owner.environment["DISTRIBUTARY_DELIVERY_POLICIES"] = f'"{policies}"'
    owner.start()
    owner.await_event("address.said")
    policies.write_text("[[nothing")
    owner.await_event("policies.kept")
    heir = machines.standby("b", "orders")
    until(lambda: machines.listed()["orders"] == ("a", ["b"]), "its standby")
    machines.move("orders", "b")
    owner.await_event("standby.waiting")
    until(lambda: machines.listed()["orders"] == ("b", ["a"]), "the former owner")
    owner.stop()
    assert machines.listed()["orders"] == ("b", [])
    again = machines.standby("c", "orders")
    until(lambda: machines.listed()["orders"] == ("b", ["c"]), "another one")
    again.kill()
    until(lambda: machines.listed()["orders"] == ("b", []), "its end", every=0.2)
    heir.stop()


def test_a_log_of_a_store_moves(own_gateway: Make, s3: FaultyS3) -> None:
    address = "s3://lake/moves"
    ObjectLake(ObjectHome(address, s3.options())).replace(None, PLACEMENT)
    machines = Machines(address, own_gateway)
    main = machines.owner("a", "main")
    owner = machines.owner("a", "orders")
    heir = machines.standby("b", "orders")
    work = Load(QUEUE, main.port)

    async def whole() -> None:
        consuming = asyncio.create_task(work.consume())
        publishing = asyncio.create_task(work.publish("x"))
        for to in ("b", "a"):
            await work.more()
            await asyncio.to_thread(
                until, lambda: machines.listed()["orders"][1], "a standby", every=0.2
            )
            await asyncio.to_thread(machines.move, "orders", to)
        await work.more()
        work.over = True
        await publishing
        await work.all_of_it()
        consuming.cancel()
        await asyncio.gather(consuming, return_exceptions=True)

    run(whole())
    assert not work.unmarked
    found = json.loads(machines.ask("list", "--json").stdout)
    assert found["move"]["number"] == 2
    for gateway in (main, owner, heir):
        gateway.stop()
