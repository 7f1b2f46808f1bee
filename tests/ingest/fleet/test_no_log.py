"""`serve --log none`: a gateway that owns no log, and serves any client of its lake."""

import asyncio
from contextlib import suppress
from pathlib import Path

from async_client import at, run
from fork_server import commands
from gateway_http import ShownGateway
from gateway_jms import Jms, temporary
from gateway_machines import Machines
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway, until
from gateway_transactions import condition_of, transacted

from distributary.client import Client
from distributary.ingest.placing.topic_placing import place
from distributary.ingest.runtime.load_settings import load
from distributary.jobs.client.live_client import live
from distributary.pipeline.lake.placement import with_log, with_rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake

#: Of a link beside those of a transacted session.
HANDLE = 9


def relaying(machines: Machines, folder: Path) -> Gateway:
    """One whose private home is in this folder, and that others can find."""
    gateway = machines.gateway("r", "--log", "none")
    gateway.environment["TMPDIR"] = str(folder)
    gateway.start()
    until(lambda: DiskLake(Path(machines.address)).members(), "what it says of itself")
    return gateway


def test_it_serves_any_client_and_leaves_nothing(
    machines: Machines, connect: Connect, tmp_path: Path
) -> None:
    """Queues and durable subscriptions of both logs, transactions, `$management`, its place in the
    list. What was left by one that was killed goes with the next start."""
    owners = [machines.owner("a", "main"), machines.owner("b", "orders")]
    folder = tmp_path / "private"
    folder.mkdir()
    gateway = relaying(machines, folder)
    gateway.kill()
    gateway.start()
    another = machines.gateway("s", "--log", "none")
    another.environment["TMPDIR"] = str(folder)
    another.start()
    assert len(list(folder.iterdir())) == 2, "of those that live"
    another.stop()
    peer = connect("client", port=gateway.port)
    for topic in ("news", "orders.eu"):
        mine = peer.durable(topic, f"of {topic}")
        peer.sender(topic).publish("here")
        assert [str(one.body) for one in mine.take(1)] == ["here"]
        mine.confirm(mine.inbox)
    queue = "queue://orders.work"

    async def transacted() -> None:
        async with at(gateway) as client, client.transaction() as transaction:
            await transaction.publish(queue, "in one")

    run(transacted())
    assert len(peer.receiver(queue, capabilities=("queue",)).take(1)) == 1
    manager = Manager(connect("operator", port=gateway.port))
    assert manager.done("READ", "queue", "orders.work")["name"] == "orders.work"
    assert manager.done("READ", "subscription", "container/client/of news")["topic"] == "news"
    assert not live(f"127.0.0.1:{gateway.port}").subscriptions  # of its own log, by its name
    shown = machines.ask("list").stdout
    assert f"no log amqp://127.0.0.1:{gateway.port} on r\n" in shown
    gateway.stop()
    assert list(folder.iterdir()) == []
    assert "no log" not in machines.ask("list").stdout
    for owner in owners:
        owner.stop()
        assert "queue://DLQ" not in owner.log


async def answered(asks: Client, answers: Client, queue: str) -> None:
    """A request with a temporary queue for its answer, and the answer."""

    async def answer() -> None:
        async for request in answers.consume(queue):
            await answers.reply(request, f"{request.body}!")
            await request.accept()
            return

    answering = asyncio.create_task(answer())
    assert (await asks.request(queue, "what")).body == "what!"
    await answering


def test_its_temporary_destinations_are_for_clients_of_all_gateways(
    machines: Machines, tmp_path: Path
) -> None:
    """They are in its private log: other gateways relay to it. It ends with the gateway, so what is
    done there isn't prepared."""
    main, orders = machines.owner("a", "main"), machines.owner("b", "orders")
    gateway = relaying(machines, tmp_path)

    async def whole() -> None:
        async with at(gateway) as asks, at(main) as elsewhere, at(gateway) as beside:
            await answered(asks, elsewhere, "queue://orders.questions")
            await answered(asks, beside, "queue://questions")
            await answered(elsewhere, beside, "queue://orders.others")

    run(whole())
    with Jms(gateway.port) as jms:
        session = transacted(jms)
        jms.send(temporary("temporary-queue", handle=HANDLE, channel=session.channel))
        session.until("attach", "flow")
        [posted] = session.post(HANDLE, "lost with it")
        assert condition_of(session.answer(posted)) == ""
        manager = Manager(Peer(gateway.port))
        text = manager.refused(501, "PREPARE", "transaction", "1:01:", transaction=session.id)
        assert "it can't be prepared" in text
    for one in (gateway, orders, main):
        one.stop()


def test_its_metrics_and_health(machines: Machines, tmp_path: Path) -> None:
    shown = {}
    for machine, log in (("a", "main"), ("r", "none")):
        fleet = {"fleet": {"machine": machine, "member_ms": 200}}
        shown[log] = gateway = ShownGateway(tmp_path / machine, fleet)
        gateway.address, gateway.options = machines.address, ["--log", log]
    with shown["main"], shown["none"]:
        assert shown["none"].ask("/readyz")[0] == 200
        assert shown["none"].metric("ready") == 1
        for machine, role in (("a", "owner"), ("r", "relay")):
            shown["main"].await_metric(1, "fleet_gateways", machine=machine, role=role)
        shown["none"].stop()
        shown["main"].await_metric(0, "fleet_gateways", machine="r", role="relay")
        shown["main"].stop()


def test_topics_are_placed_while_none_relays(machines: Machines, tmp_path: Path) -> None:
    """A gateway without a log has no lock: the command that places looks for it, and it looks
    whether the placement is the one that it knows."""
    gateway = relaying(machines, tmp_path)
    said = machines.ask("place", "a", "orders", code=4).stderr
    assert f"the one at amqp://127.0.0.1:{gateway.port} on r" in said
    lake = DiskLake(Path(machines.address))
    lake.replace(lake.placement(), with_log(lake.placement(), "prices"))
    gateway.ended(1)
    assert "relays by version 1. Start it again" in gateway.log


def test_who_places_waits_for_one_that_relays_unknown_to_others(
    machines: Machines, tmp_path: Path
) -> None:
    """Its record as a member is lost: when the placement changes it still stops relaying."""
    gateway = ShownGateway(tmp_path / "r", {"fleet": {"machine": "r", "member_ms": 60_000}})
    gateway.address, gateway.options = machines.address, ["--log", "none"]
    with gateway:
        lake = DiskLake(Path(machines.address))
        until(lake.members, "what it says of itself")
        lake.forget_members([one.number for one in lake.members()])
        assert gateway.ask("/readyz")[0] == 200
        place(lake, load(environment={}), lambda seen: with_rule(seen, "a", ["orders"]))
        with suppress(OSError):  # it has ended
            assert gateway.ask("/readyz")[0] == 503
        gateway.ended(1)


def test_what_can_not_be(machines: Machines, tmp_path: Path) -> None:
    def refused(*words: object) -> str:
        done = commands().run("serve", "--listen", "127.0.0.1:0", "--log", "none", *words)
        assert done.returncode == 2, done.stdout + done.stderr
        return done.stderr

    assert "--log none serves without one" in refused("--home", machines.address, "--standby")
    assert "there is nothing to serve" in refused("--home", tmp_path / "single")
    assert "is the name of the log of a gateway that has none" in (
        machines.ask("create", "none-7", code=2).stderr
    )
