"""Faults of operators and machines: settings that can't be, ports and homes in use, logins, a disk
that fills, a table that another writer changed."""

import os
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from gateway_frames import AMQP_HEADER, OPEN, SASL_HEADER, Raw, begin_frame, open_frame
from gateway_links import encoded
from gateway_peer import Connect, Peer, PeerLost
from gateway_process import PATIENCE, Gateway, Settings, cpu_seconds, until
from proton import Delivery, Endpoint, Message, SSLDomain
from proton.reactor import Container
from proton.utils import BlockingConnection

from distributary.ingest.security.users import hashed

Make = Callable[..., Gateway]
PASSWORD = "wonderland"  # noqa: S105 (alice's, who is made up)

BAD_SETTINGS: dict[str, tuple[Settings, str]] = {
    "an unknown key": ({"amqp": {"speed": 9}}, "unknown key amqp.speed"),
    "an unknown section": ({"magic": {"on": True}}, "unknown section [magic]"),
    "a text for a number": ({"commit": {"interval_ms": "often"}}, "interval_ms"),
    "limits that don't fit together": (
        {"journal": {"backlog_bytes_max": 1_000_000}},
        "backlog_bytes_max must be twice",
    ),
    "half of TLS": ({"security": {"tls_key": "key.pem"}}, "go together"),
    "a certificate that isn't there": (
        {"security": {"tls_certificate": "/nowhere.pem", "tls_key": "/nowhere.key"}},
        "tls_certificate",
    ),
    "users that aren't there": ({"security": {"users": "/nowhere.toml"}}, "/nowhere.toml"),
}


def one_sentence(gateway: Gateway, *, code: int, says: str) -> None:
    """The gateway can't start: its exit code, and one line that a person understands."""
    gateway.spawn()
    gateway.ended(code)
    lines = gateway.log.splitlines()
    said = [line for line in lines if line.startswith("distributary: ")]
    assert len(said) == 1, gateway.log
    assert says in said[0]
    assert "Traceback" not in gateway.log


@pytest.mark.parametrize("kind", BAD_SETTINGS)
def test_settings_that_can_not_be_stop_the_start(own_gateway: Make, kind: str) -> None:
    """Exit code 2 and one sentence that names what is wrong."""
    settings, says = BAD_SETTINGS[kind]
    one_sentence(own_gateway(settings), code=2, says=says)


def test_a_settings_file_that_is_a_folder_stops_the_start(own_gateway: Make) -> None:
    """One sentence, no traceback."""
    gateway = own_gateway()
    gateway.config.unlink()
    gateway.config.mkdir()
    one_sentence(gateway, code=2, says="can't be read")


@pytest.mark.parametrize("line", ['alice = "secret"', 'alice = "scrypt$!$?"', "alice = 7"])
def test_a_users_file_without_hashes_stops_the_start(
    own_gateway: Make, tmp_path: Path, line: str
) -> None:
    """The start fails, not the first login: otherwise no user could ever log in, or worse."""
    users = tmp_path / "users.toml"
    users.write_text(line)
    one_sentence(own_gateway({"security": {"users": str(users)}}), code=2, says="alice")


def test_a_port_in_use_stops_the_start(own_gateway: Make) -> None:
    """Exit code 2, naming the address."""
    gateway = own_gateway()
    with socket.create_server(("127.0.0.1", 0)) as other:
        gateway.port = other.getsockname()[1]
        one_sentence(gateway, code=2, says=f"127.0.0.1:{gateway.port}")


def test_a_home_in_use_stops_the_start(own_gateway: Make, connect: Connect) -> None:
    """Exit code 1 with the owner's pid; the owner goes on."""
    with own_gateway() as owner:
        second = own_gateway()
        second.home = owner.home
        assert owner.process is not None
        one_sentence(second, code=1, says=f"pid {owner.process.pid}")
        connect(port=owner.port).sender("t").publish("mine")


def test_a_new_home_is_ready_within_two_seconds_of_work(own_gateway: Make) -> None:
    """And says where it listens."""
    with own_gateway() as gateway:
        [event] = gateway.events("listening")
        assert event["address"] == f"127.0.0.1:{gateway.port}"
        assert gateway.process is not None
        assert cpu_seconds(gateway.process.pid) < 2
        assert int(str(gateway.events("store.opened")[0]["milliseconds"])) >= 0


def test_a_slow_handshake_is_dropped(own_gateway: Make, connect: Connect) -> None:
    """It is dropped if nothing comes, half a header, or no open; a timely client stays."""
    limits = {"handshake_ms_max": 3_000, "open_ms_max": 3_000}
    with own_gateway({"amqp": limits}) as gateway, ExitStack() as ends:
        patient = connect(port=gateway.port)
        hellos = (b"", b"AM", SASL_HEADER, AMQP_HEADER)
        for slow in [ends.enter_context(Raw(gateway.port, hello=one)) for one in hellos]:
            slow.rest()
        patient.sender("t").publish("still here")
        assert len(gateway.events("connection.failed")) == 4


def test_who_has_logged_in_may_open_later(own_gateway: Make) -> None:
    """JMS clients do: they log in when they are made, and open at their first use. But an open that
    has begun must come to its end."""
    with own_gateway({"amqp": {"handshake_ms_max": 2_000}}) as gateway:
        for name, begun in (("late", open_frame("late")), ("slow", open_frame("slow")[:-1])):
            with Raw(gateway.port, hello=AMQP_HEADER) as raw:
                raw.exactly(8)
                # Another peer came later and has run out of time: so would this one have.
                with Raw(gateway.port, hello=b"") as silent:
                    silent.rest()
                raw.send(begun)
                raw.next(OPEN) if name == "late" else raw.rest()
        failed = gateway.await_event("connection.failed", 3)
        assert "handshake_ms_max" in str(failed["reason"])


def test_a_silent_peer_is_dropped(own_gateway: Make, connect: Connect) -> None:
    """After the idle time-out, and its container id is free; a peer that is quiet but answers the
    heartbeats stays."""
    with own_gateway({"amqp": {"idle_timeout_ms": 5_000}}) as gateway:
        quiet = connect(port=gateway.port)
        with Raw(gateway.port, hello=AMQP_HEADER + open_frame("silent") + begin_frame()) as raw:
            quiet.until(lambda: gateway.events("connection.closed"), "the silent one is dropped")
            assert raw.until_end()
        connect("silent", port=gateway.port)
        quiet.sender("t").publish("still here")


def test_more_connections_than_the_limit_are_turned_away(
    own_gateway: Make, connect: Connect
) -> None:
    """The others go on, and there is room again when one goes."""
    with own_gateway({"amqp": {"connections_max": 2}}) as gateway:
        first, second = connect(port=gateway.port), connect(port=gateway.port)
        with pytest.raises((PeerLost, ConnectionError)):
            connect(port=gateway.port)
        second.close()
        second.drop()
        gateway.await_event("connection.closed")
        connect(port=gateway.port).sender("t").publish("room again")
        first.sender("t").publish("still here")


def few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500))


def test_more_connections_than_descriptors_are_turned_away(
    own_gateway: Make, connect: Connect
) -> None:
    """With any limit in the settings the gateway keeps some for its own files, and goes on."""
    gateway = own_gateway()
    gateway.start(before=few_descriptors)
    served = connect(port=gateway.port)
    crowd = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(800)]
    served.sender("t").publish("still here")
    fewer = gateway.await_event("connections.fewer")
    assert fewer["connections_max"] == 500 - 384
    until(lambda: len(gateway.events("connection.failed")) >= 600, "most are turned away")
    for one in crowd:
        one.close()
    served.sender("t").publish("and still")
    assert gateway.running
    assert not gateway.events("gateway.bug")


@pytest.fixture
def guarded(own_gateway: Make, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway that knows the user alice alone."""
    users = tmp_path / "users.toml"
    users.write_text(f'alice = "{hashed(PASSWORD)}"\n')
    with own_gateway({"security": {"users": str(users), "anonymous": False}}) as gateway:
        yield gateway


def test_a_user_with_the_password_may_in(guarded: Gateway, connect: Connect) -> None:
    """PLAIN with the right password is served like any other."""
    connect(port=guarded.port, user="alice", password=PASSWORD).sender("t").publish("hello")


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "looking-glass"), ("bob", PASSWORD), ("alice", "x" * 900)]
)
def test_a_wrong_password_may_not(
    guarded: Gateway, connect: Connect, user: str, password: str
) -> None:
    """Nor may an unknown user; the log has the name that was tried, never the password."""
    with pytest.raises(PeerLost, match="unauthorized"):
        connect(port=guarded.port, user=user, password=password)
    assert user in str(guarded.await_event("connection.failed")["reason"])
    assert password not in guarded.log


def test_without_a_login_nobody_may_in(guarded: Gateway, connect: Connect) -> None:
    """Neither ANONYMOUS nor leaving SASL out."""
    with pytest.raises(PeerLost):
        connect(port=guarded.port)
    with Raw(guarded.port, hello=AMQP_HEADER + open_frame("sneaky")) as raw:
        assert raw.rest() == SASL_HEADER


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl here to make a certificate with")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", key, "-out", chain]
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            *subject,
            *files,
        ],
        check=True,
        capture_output=True,
    )
    return chain, key


def test_tls_serves_clients_that_trust_the_certificate(
    own_gateway: Make, certificate: tuple[Path, Path]
) -> None:
    """Proton's blocking client over amqps, with the peer's name verified; a big message too. What
    isn't TLS is turned away, and the gateway goes on."""
    chain, key = certificate
    with own_gateway({"security": {"tls_certificate": str(chain), "tls_key": str(key)}}) as gateway:
        with Raw(gateway.port, hello=SASL_HEADER) as raw:
            raw.rest()
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(str(chain))
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
        address = f"amqps://localhost:{gateway.port}"
        connection = BlockingConnection(address, PATIENCE, Container(), ssl_domain=domain)
        receiver = connection.create_receiver("t", credit=10)
        sender = connection.create_sender("t")
        for size in (10, 1_000_000):
            sender.send(Message(body=b"x" * size, durable=True))
            assert len(receiver.receive(PATIENCE).body) == size
            receiver.accept()
        connection.close()


#: What `accepted` waits for, and the event that says that it can't be had.
FULL = {"journal": "journal.full", "delta": "commit.failed"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB of its own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount the small disk that this test fills")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", disk], check=False)
    if made.returncode:
        pytest.skip("this machine doesn't allow the mount of a small disk")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path) -> Path:
    """Take all the space that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4_096):
                pass
        except OSError:
            pass
    return ballast


@pytest.mark.parametrize("durability", FULL)
def test_a_full_disk_stops_accepting_and_loses_nothing(
    own_gateway: Make, connect: Connect, small_disk: Path, durability: str
) -> None:
    """Producers get no accepted, consumers no confirmation and no new subscription, and the log
    says why; with space again everything goes on, and all that was accepted, before and after, is
    there; also after a restart."""
    settings: Settings = {
        "journal": {"segment_bytes": 1 << 20, "retry_ms": 50, "durability": durability},
        "commit": {"interval_ms": 50, "retry_ms": 50},
    }
    full = FULL[durability]
    gateway = own_gateway(settings)
    gateway.home = small_disk / "home"
    with gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t", "mine"), closed=False)
        sender = peer.sender("t")
        acker = peer.durable("t", "acker")
        sender.publish(*range(10))
        [held] = acker.take()
        ballast = fill(small_disk)
        bodies = [f"{n} {os.urandom(20_000).hex()}" for n in range(10, 200)]
        deliveries = [sender.send(encoded(body)) for body in bodies]
        peer.until(lambda: gateway.events(full), "the disk is full")
        assert "space" in str(gateway.events(full)[0]["reason"])
        peer.until(lambda: gateway.events("commit.failed"), "a commit fails")
        assert not all(delivery.settled for delivery in deliveries)
        other = connect(port=gateway.port).sender("t")
        late = other.send(encoded("late"))
        held.delivery.update(Delivery.ACCEPTED)
        newcomer = peer.durable("t", "newcomer", opened=False)
        for one in (peer, other.peer):
            one.heard()
        assert not late.settled
        assert not held.delivery.settled, "confirmed, and nothing of it is on the disk"
        assert not newcomer.link.state & Endpoint.REMOTE_ACTIVE, "it is durable nowhere"

        ballast.unlink()
        peer.until(lambda: all(d.settled for d in deliveries), "all are accepted")
        other.outcome(late)
        peer.until(lambda: held.delivery.settled, "the confirmation")
        peer.attached(newcomer.link)
        if durability == "journal":
            gateway.await_event("journal.has_space")
        peer.drop()
        gateway.kill()
        gateway.start()
        receiver = connect("c", port=gateway.port).durable("t", "mine")
        wanted = [*range(10), *bodies, "late"]
        got = [receiver.bodies(1)[0] for _ in wanted]
        assert sorted(map(str, got)) == sorted(map(str, wanted))
        assert receiver.nothing()
        gateway.stop()


@pytest.mark.parametrize("durability", FULL)
def test_sigterm_does_not_wait_for_a_full_disk(
    own_gateway: Make, connect: Connect, small_disk: Path, durability: str
) -> None:
    """It ends, what was accepted is on the disk, and the next start has it."""
    gateway = own_gateway(
        {
            "journal": {"segment_bytes": 1 << 20, "retry_ms": 50, "durability": durability},
            "commit": {"interval_ms": 50, "retry_ms": 50},
        }
    )
    gateway.home = small_disk / "home"
    with gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t", "mine"), closed=False)
        sender = peer.sender("t")
        sender.publish(*range(10))
        ballast = fill(small_disk)
        deliveries = [sender.send(encoded(os.urandom(40_000))) for _ in range(100)]
        peer.until(lambda: gateway.events(FULL[durability]), "the disk is full")
        accepted = sum(delivery.settled for delivery in deliveries)
        gateway.stop()
        ballast.unlink()
        gateway.start()
        receiver = connect("c", port=gateway.port).durable("t", "mine")
        assert receiver.bodies(10) == list(range(10))
        assert receiver.drain(1_000) >= accepted


def foreign_commit(home: Path) -> None:
    """Another writer appends a row to the table."""
    path = home / "tables/topic_log"
    table = DeltaTable(path)
    schema = pa.schema(table.schema().to_arrow())
    row = {field.name: pa.nulls(1, field.type) for field in schema}
    row["record"] = pa.array(["message"], schema.field("record").type)
    row["topic"] = pa.array(["foreign"], schema.field("topic").type)
    write_deltalake(path, pa.table(row, schema=schema), mode="append")


def test_a_table_that_somebody_else_changed_stops_the_gateway(
    own_gateway: Make, connect: Connect
) -> None:
    """Exit code 1, the log says why, peers hear of it. Rows that no gateway wrote are refused at
    the next start, by their file; without them it goes on, with all that was accepted."""
    with own_gateway({"commit": {"interval_ms": 50}}) as gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t", "mine"), closed=False)
        sender = peer.sender("t")
        sender.publish("before")
        until(lambda: DeltaTable(gateway.home / "tables/topic_log").version(), "a commit")
        foreign_commit(gateway.home)
        sender.send(encoded("after"))  # it may stop before it answers
        peer.until(lambda: peer.connection.remote_condition, "a condition")
        assert "ForeignCommit" in peer.connection.remote_condition.description
        peer.drop()
        gateway.ended(1)
        assert "another program" in str(gateway.events("gateway.stopped")[-1]["reason"])
        assert "Traceback" not in gateway.log
        one_sentence(gateway, code=1, says="has no statistics")
        DeltaTable(gateway.home / "tables/topic_log").delete("topic = 'foreign'")
        gateway.start()
        receiver = connect("c", port=gateway.port).durable("t", "mine")
        connect(port=gateway.port).sender("t").publish("again")
        assert receiver.bodies(1) == ["before"]
        assert receiver.bodies(1) in (["after"], ["again"])
        gateway.stop()


def test_peers_may_be_many(own_gateway: Make) -> None:
    """Hundreds of connections that come and go leave nothing behind."""
    with own_gateway() as gateway:
        for turn in range(1, 6):
            raws = [Raw(gateway.port, hello=AMQP_HEADER + open_frame(f"{n}")) for n in range(50)]
            for raw in raws:
                raw.next(OPEN)
                raw.socket.close()
            gateway.await_event("connection.closed", 50 * turn)
        with Peer(gateway.port, "7") as peer:
            peer.sender("t").publish("x")
