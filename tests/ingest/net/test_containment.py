"""A bug that shows with one peer ends that peer: whatever the loop does for it, wherever that
begins. What all peers share stops the gateway instead, and nothing of what waited is written.
"""

import ast
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from gateway_frames import (
    AMQP_HEADER,
    SOURCE,
    Raw,
    begun,
    composite,
    credit_frame,
    frame_of,
    make,
    receiver_frame,
    sender_frame,
    topic_target,
)
from gateway_jms import Jms
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, PeerLost, selector
from gateway_planted import Planted
from gateway_process import PATIENCE, until
from gateway_transactions import transacted
from proton import Endpoint

from distributary.ingest.net import containment

ROOT = Path(__file__).parents[3]
VICTIM = "victim"
SETTINGS = {
    "amqp": {"handshake_ms_max": 5_000, "transaction_timeout_seconds": 1},
    "commit": {"interval_ms": 50},
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    folder = tmp_path_factory.mktemp("planted")
    with Planted(folder, SETTINGS) as running:
        yield running
        running.stop()
        running.verified()


@pytest.fixture
def victim(faulty: Planted) -> Iterator[Peer]:
    peer = Peer(faulty.port, VICTIM)
    yield peer
    peer.drop()


def ended(raw: Raw) -> None:
    """The gateway has closed, with the condition for bugs."""
    assert raw.until_end()[-1].error == "amqp:internal-error"


def ends(peer: Peer) -> None:
    peer.until(lambda: peer.connection.state & Endpoint.REMOTE_CLOSED, "a close")
    assert peer.connection.remote_condition.name == "amqp:internal-error"


def queue_producer(gateway: Planted, topic: str) -> None:
    """A queue is made, and its producer's attach is answered when that is durable."""
    gateway.arm("distributary.ingest.gateway.link_service:LinkService._open_producer", VICTIM)
    with begun(gateway.port, VICTIM, sender_frame("s", topic_target(f"queue://{topic}"))) as raw:
        ended(raw)


# What the loop begins for a peer -> a way to get it there, with a fault on that way.


def accepting(gateway: Planted, _topic: str) -> None:
    gateway.arm("distributary.ingest.net.connection:Connection.__init__")
    with socket.create_connection(("127.0.0.1", gateway.port)) as one:
        one.settimeout(PATIENCE)
        assert one.recv(1) == b""


def made(gateway: Planted, _topic: str) -> None:
    gateway.arm("distributary.ingest.security.access:Access.handshake")
    with Raw(gateway.port) as raw:
        assert raw.rest() == b""


def handshake(gateway: Planted, _topic: str) -> None:
    gateway.arm("distributary.ingest.security.handshake:Handshake.feed")
    with Raw(gateway.port, hello=AMQP_HEADER) as raw:
        assert raw.rest() == b""


def read(gateway: Planted, _topic: str) -> None:
    with begun(gateway.port, VICTIM) as raw:
        raw.heard()
        gateway.arm("distributary.ingest.net.connection:Connection._feed", VICTIM)
        raw.send(receiver_frame("r", composite(SOURCE, "t")))
        close = raw.expect("close")[0]
        assert close.error == "amqp:internal-error"
        assert raw.until_end() == []


def written(gateway: Planted, _topic: str) -> None:
    with begun(gateway.port, VICTIM) as raw:
        raw.heard()
        gateway.arm("distributary.ingest.net.connection:Connection._write", VICTIM)
        raw.send(receiver_frame("r", composite(SOURCE, "t")))
        ended(raw)


def ticked(gateway: Planted, _topic: str) -> None:
    """A peer that wants to hear something twice a second."""
    opened = frame_of("open", container_id=VICTIM, hostname="h", idle_time_out=1_000)
    with Raw(gateway.port, hello=AMQP_HEADER + opened) as raw:
        raw.expect("open")
        gateway.arm("distributary.ingest.net.connection:Connection._tick", VICTIM)
        ended(raw)


def too_slow(gateway: Planted, _topic: str) -> None:
    gateway.arm("distributary.ingest.gateway.link_service:LinkService.failed")
    with Raw(gateway.port) as raw:
        assert raw.rest() == b""


def lost(gateway: Planted, _topic: str) -> None:
    with begun(gateway.port, VICTIM) as raw:
        raw.heard()
        gateway.arm("distributary.ingest.net.connection:Connection._free", VICTIM)


def full_socket(gateway: Planted, topic: str) -> Raw:
    """A consumer whose socket takes no more."""
    raw = begun(gateway.port, VICTIM, receiver_frame("r", composite(SOURCE, topic)))
    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    raw.heard()
    raw.send(credit_frame(1_000))
    return raw


def flood(gateway: Planted, topic: str) -> None:
    with Peer(gateway.port) as peer:
        peer.sender(topic).publish_data([b"\x00\x53\x75\xb0\x00\x04\x00\x00" + bytes(1 << 18)] * 60)


def paused(gateway: Planted, topic: str) -> None:
    with full_socket(gateway, topic) as raw:
        gateway.arm("distributary.ingest.gateway.message_loop:MessageLoop.writable", VICTIM)
        flood(gateway, topic)
        until(gateway.went_off, "the socket is full")
        raw.rest()


def resumed(gateway: Planted, topic: str) -> None:
    with full_socket(gateway, topic) as raw:
        flood(gateway, topic)
        gateway.arm("distributary.ingest.gateway.message_loop:MessageLoop.writable", VICTIM)
        raw.rest()


def browse(gateway: Planted, topic: str) -> None:
    gateway.arm(
        "distributary.ingest.subscriptions.subscription_service:SubscriptionService._browse", VICTIM
    )
    source = make("source", address=f"queue://{topic}", distribution_mode="copy")
    with begun(gateway.port, VICTIM, receiver_frame("b", source)) as raw:
        ended(raw)


def answered(gateway: Planted, topic: str) -> None:
    """A durable subscription's attach is answered when all of it is durable."""
    with Peer(gateway.port, VICTIM) as peer:
        gateway.arm("distributary.ingest.net.link:Link.open", VICTIM)
        with pytest.raises(PeerLost):
            peer.durable(topic, "d")


def deleted(gateway: Planted, topic: str) -> None:
    with Peer(gateway.port, VICTIM) as peer:
        link = peer.durable(topic, "d")
        gateway.arm("distributary.ingest.subscriptions.subscription_service:_detach", VICTIM)
        link.link.close()
        ends(peer)


def left(gateway: Planted, topic: str) -> None:
    """A link leaves when its peer has every outcome that it waits for."""
    with Peer(gateway.port, VICTIM) as peer:
        sender = peer.sender(topic)
        gateway.arm(
            "distributary.ingest.subscriptions.subscription_service:SubscriptionService.leave",
            VICTIM,
        )
        sender.send(b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\x40")
        sender.link.close()
        ends(peer)


def in_transaction(gateway: Planted, topic: str, place: str, *, commit: bool) -> None:
    with Jms(gateway.port, VICTIM) as jms:
        session = transacted(jms)
        session.declare()
        handle = session.producer(topic)
        gateway.arm(place, VICTIM)
        session.post(handle, "half")
        if commit:
            session.send_discharge(fail=False)
        ended(jms)


def committed(gateway: Planted, topic: str) -> None:
    in_transaction(
        gateway,
        topic,
        "distributary.ingest.transactions.coordinator:Coordinator._committed",
        commit=True,
    )


def fine(gateway: Planted, topic: str) -> None:
    in_transaction(
        gateway,
        topic,
        "distributary.ingest.transactions.post_answers:will_be",
        commit=False,
    )


def too_long(gateway: Planted, topic: str) -> None:
    in_transaction(
        gateway,
        topic,
        "distributary.ingest.transactions.coordinator:Coordinator._too_long",
        commit=False,
    )


def lingered(gateway: Planted, topic: str) -> None:
    with Peer(gateway.port) as peer:
        peer.leave(peer.shared_durable(topic, f"{topic}|global"), closed=False)
        peer.sender(topic).publish("one")  # a holder that has nothing doesn't linger
    with Peer(gateway.port, VICTIM) as peer:
        said = {"holder": "h", "max": 1, "keep": "", "linger_ms": 50}
        Manager(peer).done("ACQUIRE", "subscription", f"global/{topic}", **said)
        gateway.arm("distributary.ingest.management.leases:Leases._lingered", VICTIM)


def asked(gateway: Planted, topic: str, place: str, container: str, operation: str) -> None:
    with Peer(gateway.port) as peer:
        peer.leave(peer.shared_durable(topic, f"{topic}|global"), closed=False)
    with Peer(gateway.port, VICTIM) as peer:
        manager = Manager(peer)
        gateway.arm(place, container)
        said = {"holder": "h", "max": 1, "keep": ""} if operation == "ACQUIRE" else {}
        manager.send(operation, "subscription", f"global/{topic}", **said)
        ends(peer)


def request(gateway: Planted, topic: str) -> None:
    asked(gateway, topic, "distributary.ingest.management.node:Node._message", VICTIM, "READ")


def reading(gateway: Planted, topic: str) -> None:
    asked(gateway, topic, "distributary.ingest.management.requests:Requests._answer", "", "READ")


def acquiring(gateway: Planted, topic: str) -> None:
    asked(
        gateway,
        topic,
        "distributary.ingest.management.lease_requests:LeaseRequests._answer",
        VICTIM,
        "ACQUIRE",
    )


WAYS: tuple[Callable[[Planted, str], None], ...] = (
    *(accepting, made, handshake, read, written, ticked, too_slow, lost, paused, resumed),
    *(queue_producer, browse, answered, deleted, left, committed, fine, too_long, lingered),
    *(request, reading, acquiring),
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_bug_ends_the_peer_that_it_shows_with(
    faulty: Planted, connect: Connect, topic: str, way: Callable[[Planted, str], None]
) -> None:
    """It is logged with its traceback and counted; all other peers are served as ever."""
    peer = connect(port=faulty.port)
    receiver, sender = peer.receiver(f"{topic}-witness"), peer.sender(f"{topic}-witness")
    manager = Manager(peer)
    before = manager.done("READ", "node", "self")
    known = len(faulty.events("connection.bug"))
    way(faulty, topic.partition("[")[0])
    until(faulty.went_off, "the fault was met")
    sender.publish("unharmed")
    assert receiver.bodies() == ["unharmed"]
    bug = faulty.await_event("connection.bug", known + 1)
    assert "planted" in str(bug["exception"])
    until(
        lambda: manager.done("READ", "node", "self")["connections"] == before["connections"],
        "the peer has gone",
    )
    after = manager.done("READ", "node", "self")
    assert after["internal_errors"] == before["internal_errors"] + 1
    assert faulty.running


# Selectors.


def test_a_selector_that_fails_makes_its_subscription_wait(
    faulty: Planted, connect: Connect, topic: str
) -> None:
    """Its owed messages can't be told: it waits, says so, and is tried again; others go on."""
    peer = connect(port=faulty.port)
    red = selector("colour = 'red'")
    one, other = peer.shared_durable(topic, f"{topic}|global", filters=red), peer.receiver(topic)
    sender = peer.sender(topic)
    one.link.flow(1)
    faulty.arm("distributary.pipeline.selector.matching:_Together.evaluate")
    sender.publish_data([encoded("red", properties={"colour": "red"})])
    assert other.bodies() == ["red"]
    event = faulty.await_event("selector.failed")
    assert (event["subscription"], event["level"]) == (f"global/{topic}", "error")
    assert "planted" in str(event["exception"])
    assert one.bodies() == ["red"]
    assert Manager(peer).done("READ", "subscription", f"global/{topic}")["unreadable"] is None


def test_a_consumers_own_selector_that_fails_ends_its_peer(
    faulty: Planted, connect: Connect, topic: str
) -> None:
    """On a queue: what it would have got goes to the others."""
    peer = connect(port=faulty.port)
    known = len(faulty.events("connection.bug"))
    queue = f"queue://{topic}"
    sender = peer.sender(queue)
    with Peer(faulty.port, VICTIM) as picky:
        link = picky.receiver(queue, capabilities=("queue",), filters=selector("colour = 'red'"))
        link.link.flow(1)
        until(lambda: Manager(peer).done("READ", "queue", topic)["consumers"] == 1, "its credit")
        faulty.arm("distributary.pipeline.selector.matching:_Together.evaluate")
        sender.publish_data([encoded("red", properties={"colour": "red"})])
        ends(picky)
    assert peer.receiver(queue, capabilities=("queue",)).bodies() == ["red"]
    assert "planted" in str(faulty.await_event("connection.bug", known + 1)["exception"])


# What the gateway stops for.


@pytest.mark.parametrize(
    "place",
    [
        "distributary.ingest.commit.group_log:Log.slow",
        "distributary.pipeline.dispatch.dispatcher:Dispatcher.settle",
        "distributary.ingest.commit.group_log:Log._begin",
    ],
)
def test_a_bug_in_what_all_share_stops_the_gateway(tmp_path: Path, topic: str, place: str) -> None:
    """Though it shows while the loop works for one peer: its end would undo nothing."""
    with Planted(tmp_path) as gateway:
        gateway.BUGS = ()
        peer = Peer(gateway.port, VICTIM)
        sender, receiver = peer.sender(topic), peer.durable(topic, "d")
        gateway.arm(place)
        with suppress(PeerLost):
            sender.publish("a")
            receiver.bodies()
        gateway.ended(1)
        peer.drop()
        assert "planted" in str(gateway.await_event("gateway.bug")["exception"])
        assert not gateway.events("connection.bug")


def test_nothing_of_what_waits_is_written_after_a_bug(tmp_path: Path, topic: str) -> None:
    """Half of a transaction waits for the log when its other half fails: none of it is ever there,
    and what was durable before is."""
    with Planted(tmp_path) as gateway:
        gateway.BUGS = ()
        with Peer(gateway.port) as peer:
            reader = peer.durable(topic, "d")
            peer.leave(reader, closed=False)
            peer.sender(topic).publish("before")
        with Jms(gateway.port, VICTIM) as jms:
            session = transacted(jms)
            session.declare()
            one, other = session.producer(topic), session.producer(f"{topic}-2")
            session.post(one, "half")
            session.post(other, "half")
            # The first run of the commit waits for its group by then.
            gateway.arm("distributary.ingest.commit.group_log:Log._add/2")
            session.send_discharge(fail=False)
            jms.until_end()
        gateway.ended(1)
        gateway.start()
        with Peer(gateway.port, reader.peer.container) as peer:
            again = peer.durable(topic, "d")
            assert again.bodies() == ["before"]
            assert again.nothing()


def test_every_shared_module_is_there() -> None:
    """A rule about a module that has moved would hold for ever."""
    paths = {ROOT / f"{module.replace('.', '/')}.py" for module in containment.SHARED}
    assert all(path.is_file() for path in paths), paths
    assert (ROOT / containment.SHARED_ROOM.replace(".", "/")).is_dir()


# Where work begins.

#: What has something called later, or makes a callback of it.
REGISTRARS = {
    *("call_later", "call_soon", "call_at", "call_soon_threadsafe", "create_task", "ensure_future"),
    *("add_done_callback", "add_reader", "run_in_executor", "after", "when_sure", "joined"),
}
#: Path, function and registrar -> why what it raises is no peer's, or is contained all the same.
OTHERS = {
    "ingest/runtime/workers.py __init__ call_later": "`watched` ends the service",
    "ingest/runtime/workers.py _begin create_task": "`watched` ends the service",
    "ingest/runtime/workers.py _begin add_done_callback": "`watched` ends the service",
    "ingest/runtime/workers.py _ended call_later": "`watched` ends the service",
    "ingest/runtime/workers.py begin create_task": "`watched` ends the service",
    "ingest/runtime/workers.py begin add_done_callback": "`watched` ends the service",
    "ingest/runtime/workers.py _run call_soon_threadsafe": "jobs of the log, marks, reader",
    "ingest/commit/group_writer.py _done call_later": "the log of all: what it raises stops it",
    "ingest/commit/objects/put_writer.py _again call_later": "as above",
    "ingest/cli/messages/input_ahead.py _put call_soon_threadsafe": "a command, no gateway",
    "ingest/cli/messages/message_traffic.py _run create_task": "a command, no gateway",
    "ingest/cli/messages/message_traffic.py _send_all create_task": "a command, no gateway",
    "ingest/cli/messages/message_traffic.py _send_all add_done_callback": "a command, no gateway",
    "ingest/gateway/ownership/heartbeat.py _turn call_later": "whose the home is",
    "ingest/gateway/ownership/heartbeat.py _lose call_soon_threadsafe": "whose the home is",
    "ingest/gateway/service_notice.py _lives call_later": "a sign of life for the service manager",
    "ingest/gateway/lake_member.py _said call_later": "says where the gateway listens",
    "ingest/runtime/collecting.py begin call_later": "the collector of cycles",
    "ingest/runtime/collecting.py _collect call_later": "the collector of cycles",
    "ingest/fleet/membership.py _begin create_task": "`watched` ends the service",
    "ingest/gateway/serve.py _tell_left_out call_later": "lines of the log",
    "ingest/runtime/turns.py ask call_soon": "goes on serving subscriptions",
    "ingest/runtime/turns.py turn call_soon": "sets a future",
    "ingest/runtime/turns.py _next call_soon": "sets a future",
    "ingest/runtime/turns.py later call_soon": "`Connection.flush` and `go_on` are contained",
    "ingest/delivery/selector_faults.py failed call_later": "goes on serving a subscription",
    "ingest/runtime/watched.py start call_later": "files of operators",
    "ingest/net/listener.py _listen add_reader": "nobody's yet",
    "ingest/net/listener.py _resume add_reader": "nobody's yet",
    "ingest/net/listener.py _accept call_later": "nobody's yet",
    "ingest/net/listener.py _accept create_task": "`_let_in` catches everything",
    "ingest/net/listener.py _accept add_done_callback": "only counts",
    "ingest/security/access.py verify run_in_executor": "its result is read by `_verified`",
    "ingest/net/containment.py broke call_soon": "`_end_broken` catches everything",
    "ingest/management/node.py received create_task": "`_contained` catches everything",
    "ingest/management/node.py received add_done_callback": "only counts",
    "ingest/management/leases.py durable after": "sets a future",
    "ingest/management/redrive.py _durable after": "sets a future",
    "ingest/transactions/prepared_service.py sure after": "sets a future",
    "ingest/transactions/decision_service.py _wait call_later": "what it calls is contained",
    "ingest/transactions/other_logs.py _begin create_task": "`watched` ends the service",
    "ingest/transactions/other_logs.py _begin add_done_callback": "only counts",
    "ingest/management/leases.py _join joined": "sets a future",
    "ingest/monitoring/http_server.py _again create_task": "the port of metrics, no peer's",
    "ingest/monitoring/http_server.py _try call_later": "the port of metrics, no peer's",
    "ingest/monitoring/http_connection.py _wait call_later": "`abort` of its socket alone",
    "ingest/monitoring/http_connection.py _advance create_task": "`_answer` catches everything",
    "ingest/schemas/validator.py _answered call_soon_threadsafe": "`_go_on` contains it",
    "ingest/schemas/validator.py answered call_soon_threadsafe": "sets a future",
    "ingest/tracing/message_tracing.py _tick call_later": "spans of all messages",
    "ingest/tracing/span_export.py open add_reader": "the exporter, no peer's",
    "ingest/tracing/span_export.py _ended call_later": "the exporter, no peer's",
    "ingest/relaying/owners/owner_connection.py _dial ensure_future": "awaited where it is made",
    "ingest/gateway/link_service.py attached joined": "no callback: a temporary destination's",
}


def registered(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Each call in a file that has something called later, by the function in which it stands."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else ""
            called = getattr(child.func, "attr", "") if isinstance(child, ast.Call) else ""
            if isinstance(child, ast.Call) and called in REGISTRARS:
                yield f"{function} {called}", child
            yield from visit(child, inner or function)

    yield from visit(ast.parse(path.read_text()), "")


def contained_methods() -> set[str]:
    """The methods of a connection in which the loop begins to work for it."""
    files = [ROOT / "ingest/net/connection.py", ROOT / "ingest/net/containment.py"]
    return {
        node.name
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
        and any(isinstance(d, ast.Name) and d.id == "contained" for d in node.decorator_list)
    }


def is_contained(call: ast.Call, methods: set[str]) -> bool:
    """Whether what is called later is work for one peer that begins at its boundary."""
    names = {node.attr for arg in call.args for node in ast.walk(arg) if hasattr(node, "attr")}
    return bool(names & (methods | {"later", "attempt"}))


def test_all_work_that_begins_for_a_peer_is_contained() -> None:
    """A callback, a timer or a task is contained, or the module's that registers it is shared, or
    it stands in the table, which has no lines of what has gone. The console is a process of its
    own, whose peers are browsers."""
    methods, used, bad = contained_methods(), set(), []
    console = ROOT / "ingest/console"
    for path in sorted(set((ROOT / "ingest").rglob("*.py")) - set(console.rglob("*.py"))):
        name = path.relative_to(ROOT).as_posix()
        module = f"distributary.{name.removesuffix('.py').replace('/', '.')}"
        shared = module in containment.SHARED
        if shared:
            continue
        for where, call in registered(path):
            line = f"{name} {where}"
            if line in OTHERS:
                used.add(line)
            elif not is_contained(call, methods):
                bad.append(f"{line} (line {call.lineno})")
    assert not bad, bad
    assert set(OTHERS) == used, set(OTHERS) - used


def test_what_the_loop_calls_of_a_connection_is_contained() -> None:
    """asyncio's calls to a protocol, and those that others make on a connection for its sake. The
    two that aren't give a buffer and a constant."""
    protocol = {"connection_made", "connection_lost", "buffer_updated", "pause_writing"}
    assert protocol | {"resume_writing", "flush", "hold", "attempt"} <= contained_methods()
