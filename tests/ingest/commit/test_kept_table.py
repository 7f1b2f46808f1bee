"""A gateway keeps its table small beside its traffic, and forgets no owed message."""

import shutil
import time
from collections.abc import Callable

from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway, until
from proton import Message
from table_groups import DAY_US, framed, group, run

from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

MakeGateway = Callable[..., Gateway]
TINY = {
    "commit": {"interval_ms": 10},
    "delivery": {"cache_bytes": 20_000, "page_bytes": 8_192},
}
#: Rounds of publishing in which a hundred commits must have come together.
ROUNDS_MAX = 2_000


def kinds(gateway: Gateway) -> set[str]:
    return {str(event["kind"]) for event in gateway.events("upkeep.done")}


def test_upkeep_goes_on_beside_traffic(
    own_gateway: MakeGateway, connect: Connect, topic: str
) -> None:
    """Small files are merged and checkpoints written while messages come; a subscription that
    reads late gets each of them, once and in order, also after another start."""
    gateway = own_gateway(TINY).start()
    peer = connect(topic, port=gateway.port)
    peer.leave(peer.durable(topic, "mine"), closed=False)
    sender = connect(port=gateway.port).sender(topic)
    count = 0
    for _ in range(ROUNDS_MAX):
        sender.publish(*(str(n) for n in range(count, count + 5)))
        count += 5
        if kinds(gateway) >= {"merge", "checkpoint"}:
            break
    assert kinds(gateway) >= {"merge", "checkpoint"}
    receiver = peer.durable(topic, "mine")
    got = receiver.bodies(count // 2)
    peer.leave(receiver, closed=False)
    gateway.stop()
    gateway.start()
    receiver = connect(topic, port=gateway.port).durable(topic, "mine")
    got += receiver.bodies(count - count // 2)
    assert got == [str(n) for n in range(count)]
    assert receiver.nothing()


def test_old_days_wait_for_the_last_subscription(
    own_gateway: MakeGateway, connect: Connect, topic: str
) -> None:
    """Messages of weeks ago stay as long as a durable subscription is owed one of them, and go
    when its outcomes are in the table."""
    gateway = own_gateway(TINY).start()
    peer = connect(topic, port=gateway.port)
    peer.leave(peer.durable(topic, "mine"), closed=False)
    gateway.stop()
    home = Home(gateway.home)
    log = TopicLog.open(home.topic_log)
    weeks_ago = time.time_ns() // 1_000 - 21 * DAY_US
    first = log.journal_version + 1
    old = [Message(body=f"old {n}").encode() for n in range(5)]
    log.commit([framed(group(first, log.sequence_version, run(topic, old), at=weeks_ago))])
    shutil.rmtree(home.journal_dir)

    gateway.start()
    sender = connect(port=gateway.port).sender(topic)
    for n in range(20):
        sender.publish(f"new {n}")
    receiver = connect(topic, port=gateway.port).durable(topic, "mine")
    due = [*(f"old {n}" for n in range(5)), *(f"new {n}" for n in range(20))]
    assert receiver.bodies(25) == due

    def retained() -> bool:
        sender.publish("more")
        receiver.bodies()
        return "retention" in kinds(gateway)

    until(retained, "the old day goes")
    gateway.stop()
    assert TopicLog.open(home.topic_log).first_sequence == 5

    # Messages that retention removed can't be had again; a request for them is told which can.
    gateway.start()
    manager, name = Manager(connect(port=gateway.port)), f"container/{topic}/mine"
    said = manager.refused(409, "REWIND", "subscription", name, to=4)
    assert "the earliest that is kept is 5" in said
    assert "sequence 5" in manager.refused(409, "REWIND", "subscription", name, to="30d")
    assert manager.done("REWIND", "subscription", name, to=5)["floor"] == 5
    late = {"topic": topic, "since": "30d"}
    said = manager.refused(409, "CREATE", "subscription", "global/late", **late)
    assert "sequence 5 and was published at or after it, on 20" in said
    manager.refused(404, "READ", "subscription", "global/late")
    late["from_what_is_there"] = True
    assert manager.done("CREATE", "subscription", "global/late", **late)["floor"] == 5
    assert connect(topic, port=gateway.port).durable(topic, "mine").bodies(20) == due[5:]
