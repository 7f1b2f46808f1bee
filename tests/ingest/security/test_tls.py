"""TLS and clients' certificates over real sockets, and certificates that change."""

import shutil
import signal
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from gateway_certificates import Authority
from gateway_frames import OPEN, Raw, open_frame
from gateway_process import PATIENCE, Gateway
from gateway_sasl import Login, init, plain
from proton import Message, SSLDomain
from proton.reactor import Container
from proton.utils import BlockingConnection

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

Make = Callable[..., Gateway]
Files = tuple[Path, Path]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """It signs both sides' certificates."""
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Files:
    """The gateway's own certificate."""
    return authority.issue("server", "gateway")


def tls(files: Files, authority: Authority | None = None, **more: object) -> dict[str, object]:
    """The settings; with an authority clients may show certificates."""
    chain, key = map(str, files)
    ca = {"tls_client_ca": str(authority.file)} if authority else {}
    return {"security": {"tls_certificate": chain, "tls_key": key, **ca, **more}}


def opens(raw: Raw, container: str) -> None:
    raw.send(open_frame(container))
    raw.next(OPEN)


def served(login: Login) -> str:
    """The number of the certificate that the gateway has shown."""
    assert isinstance(login.socket, ssl.SSLSocket)
    certificate = login.socket.getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


def test_a_client_with_a_certificate_logs_in_by_it(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """It uses EXTERNAL; a client without a certificate may log in by other ways, and isn't offered
    this one."""
    alice = authority.client(authority.issue("alice", "alice"))
    with own_gateway(tls(server, authority)) as gateway:
        with Login(gateway.port, alice) as login:
            assert login.mechanisms == ["EXTERNAL", "PLAIN", "ANONYMOUS"]
            assert login.log_in(init("EXTERNAL")) == 0
            opens(login, "alice")
        with Login(gateway.port, alice) as login:
            assert login.log_in(init("EXTERNAL", b"alice")) == 0
        with Login(gateway.port, alice) as login:
            assert login.log_in(init("EXTERNAL", b"root")) == 1
        with Login(gateway.port, authority.client()) as login:
            assert "EXTERNAL" not in login.mechanisms
            assert login.log_in(init("ANONYMOUS")) == 0


def test_protons_client_logs_in_by_a_certificate(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """As its users write it; the permissions are those of the certificate's name."""
    permissions = authority.folder / "permissions.toml"
    permissions.write_text('[alice]\npublish = ["t"]\nconsume = ["t"]\n')
    chain, key = map(str, authority.issue("alice", "alice"))
    settings = tls(server, authority, permissions=str(permissions), anonymous=False)
    with own_gateway(settings) as gateway:
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(str(authority.file))
        domain.set_credentials(chain, key, None)
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
        connection = BlockingConnection(
            f"amqps://localhost:{gateway.port}",
            PATIENCE,
            Container(),
            ssl_domain=domain,
            allowed_mechs="EXTERNAL",
        )
        receiver = connection.create_receiver("t", credit=1)
        connection.create_sender("t").send(Message(body="by certificate", durable=True))
        assert receiver.receive(PATIENCE).body == "by certificate"
        connection.close()


@pytest.mark.parametrize("names", [(), ("alice", "bob"), ("anonymous",), ("*",), ("",)], ids=repr)
def test_a_certificate_that_names_nobody_is_no_login(
    own_gateway: Make, authority: Authority, server: Files, names: tuple[str, ...]
) -> None:
    """One common name it must be, and not one that stands for others."""
    if names == ("",):
        names = ("anonymous", "anonymous")
    client = authority.client(authority.issue("client", *names))
    with own_gateway(tls(server, authority)) as gateway, Login(gateway.port, client) as login:
        assert login.mechanisms == ["PLAIN", "ANONYMOUS"]


def test_who_must_have_a_certificate_and_has_none_is_turned_away(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """By TLS itself, where there is no other login; so is one of another authority, or an expired
    one. The gateway goes on."""
    other = Authority(authority.folder, "other")
    stranger = authority.client()
    stranger.load_cert_chain(*map(str, other.issue("mallory", "alice")))
    expired = authority.client(authority.issue("old", "alice", days=-1))
    alice = authority.client(authority.issue("alice", "alice"))
    with own_gateway(tls(server, authority, anonymous=False)) as gateway:
        for client in (authority.client(), stranger, expired):
            with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
                Login(gateway.port, client)
        with Login(gateway.port, alice) as login:
            assert login.mechanisms == ["EXTERNAL"]
            assert login.log_in(init("EXTERNAL")) == 0
        gateway.await_event("connection.failed", 3)
        said = [str(event["reason"]) for event in gateway.events("connection.failed")]
        assert all(reason.startswith("TLS: ") for reason in said)
        assert "expired" in said[2]


def test_a_stranger_may_not_show_a_certificate_even_where_none_is_needed(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """A wrong one is worse than none."""
    other = Authority(authority.folder, "other")
    stranger = authority.client()
    stranger.load_cert_chain(*map(str, other.issue("mallory", "alice")))
    with own_gateway(tls(server, authority)) as gateway:
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            Login(gateway.port, stranger)
        with Login(gateway.port, authority.client()) as login:
            assert login.log_in(init("ANONYMOUS")) == 0


def replace(files: Files, by: Files) -> None:
    """Put other files in the place of these, each at once."""
    for old, new in zip(files, by, strict=True):
        copy = new.with_suffix(".copy")
        shutil.copy(new, copy)
        copy.replace(old)


def test_a_new_certificate_is_served_without_a_restart(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """New connections get it, present ones go on, and none is turned away meanwhile."""
    trust = authority.client()
    with own_gateway(tls(server)) as gateway, ExitStack() as connections:
        before = connections.enter_context(Login(gateway.port, trust))
        old = served(before)
        replace(server, authority.issue("next", "gateway"))
        numbers = set()
        while old in numbers or not numbers:
            with Login(gateway.port, trust) as login:
                numbers = {served(login)}
                assert login.log_in(init("ANONYMOUS")) == 0
        assert before.log_in(init("ANONYMOUS")) == 0
        opens(before, "before")
        assert gateway.events("security.reloaded")


def test_connections_come_in_while_certificates_change(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """Ten changes, by signal; each attempt to connect succeeds."""
    trust = authority.client()
    with own_gateway(tls(server)) as gateway:
        assert gateway.process is not None
        numbers = set()
        for number in range(10):
            replace(server, authority.issue(f"number-{number}", "gateway"))
            gateway.process.send_signal(signal.SIGHUP)
            for _ in range(5):
                with Login(gateway.port, trust) as login:
                    numbers.add(served(login))
        assert len(numbers) >= 5
        gateway.stop()


def test_a_standby_reads_its_files_again_too(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """By SIGHUP while it waits; it serves with what is there when it takes over."""
    trust = authority.client()
    with own_gateway() as owner:
        standby = own_gateway(tls(server))
        standby.home, standby.options = owner.home, ["--standby"]
        process = standby.spawn()
        standby.await_event("standby.waiting")
        replace(server, authority.issue("next", "gateway"))
        process.send_signal(signal.SIGHUP)
        standby.await_event("security.reloaded")
        owner.stop()
        standby.await_event("listening")
        with Login(standby.port, trust) as login:
            assert login.log_in(init("ANONYMOUS")) == 0
        standby.stop()


def test_a_broken_certificate_changes_nothing(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """It is told once, and the next good one is taken."""
    trust = authority.client()
    with own_gateway(tls(server)) as gateway:
        with Login(gateway.port, trust) as login:
            old = served(login)
        chain, key = authority.issue("next", "gateway")
        replace((server[1],), (key,))  # it doesn't fit the certificate that is there
        assert str(server[0]) in str(gateway.await_event("security.kept")["reason"])
        time.sleep(1.5)  # the stimulus: it looks at its files once a second
        assert len(gateway.events("security.kept")) == 1
        with Login(gateway.port, trust) as login:
            assert served(login) == old
        replace((server[0],), (chain,))
        gateway.await_event("security.reloaded")
        with Login(gateway.port, trust) as login:
            assert served(login) != old


def test_an_authority_that_changes_holds_for_new_connections(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """Certificates of the one before lead in no more."""
    other = Authority(authority.folder, "other")
    clients = authority.folder / "clients.pem"
    shutil.copy(authority.file, clients)
    mine, theirs = authority.client(), authority.client()
    mine.load_cert_chain(*map(str, authority.issue("alice", "alice")))
    theirs.load_cert_chain(*map(str, other.issue("alice-too", "alice")))
    settings = tls(server, anonymous=False)
    settings["security"]["tls_client_ca"] = str(clients)
    with own_gateway(settings) as gateway:
        with Login(gateway.port, mine) as login:
            assert login.log_in(init("EXTERNAL")) == 0
        replace((clients,), (other.file,))
        gateway.await_event("security.reloaded")
        with Login(gateway.port, theirs) as login:
            assert login.log_in(init("EXTERNAL")) == 0
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            Login(gateway.port, mine)


#: What is wrong with the files at the start, and what the sentence says.
BAD_FILES: dict[str, tuple[Callable[[Authority], Files], str]] = {
    "expired": (lambda one: one.issue("old", "gateway", days=-1), "expired"),
    "not there": (lambda one: (one.folder / "none.pem", one.folder / "none.key"), "none.pem"),
    "the key of another": (
        lambda one: (one.issue("a", "a")[0], one.issue("b", "b")[1]),
        "can't be used",
    ),
    "an encrypted key": (
        lambda one: one.issue("locked", "gateway", password=b"sesame"),
        "encrypted",
    ),
    "no certificate": (lambda one: (one.issue("c", "c")[1], one.issue("d", "d")[1]), "used"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_certificate_that_no_client_could_use_stops_the_start(
    own_gateway: Make, authority: Authority, what: str
) -> None:
    """Exit code 2, one sentence."""
    make, says = BAD_FILES[what]
    gateway = own_gateway(tls(make(authority)))
    gateway.spawn()
    gateway.ended(2)
    [line] = [line for line in gateway.log.splitlines() if line.startswith("distributary: ")]
    assert says in line
    assert "security.tls_certificate" in line
    assert "Traceback" not in gateway.log


@pytest.mark.parametrize("text", [None, "nothing"])
def test_an_authority_that_can_not_be_read_stops_the_start(
    own_gateway: Make, authority: Authority, server: Files, text: str | None
) -> None:
    """Exit code 2, one sentence."""
    authority.file.unlink()
    if text is not None:
        authority.file.write_text(text)
    gateway = own_gateway(tls(server, authority))
    gateway.spawn()
    gateway.ended(2)
    assert f"security.tls_client_ca {authority.file}" in gateway.log
    assert "Traceback" not in gateway.log


def test_a_slow_tls_handshake_is_dropped(own_gateway: Make, server: Files) -> None:
    """A peer that says nothing, or half a hello, is dropped."""
    with own_gateway(tls(server) | {"amqp": {"handshake_ms_max": 500}}) as gateway:
        for hello in (b"", b"\x16\x03\x01\x02\x00\x01"):
            with Raw(gateway.port, hello=hello) as raw:
                raw.rest()
        gateway.await_event("connection.failed", 2)


def test_handshakes_count_as_connections(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """A peer that never ends its handshake takes a place of a connection."""
    limits = {"amqp": {"connections_max": 3, "handshake_ms_max": 2_000}}
    with own_gateway(tls(server) | limits) as gateway, ExitStack() as connections:
        inside = connections.enter_context(Login(gateway.port, authority.client()))
        for _ in range(2):
            connections.enter_context(Raw(gateway.port, hello=b"\x16"))
        with Raw(gateway.port) as one_more:
            assert one_more.rest() == b""
        assert "connections_max" in str(gateway.await_event("connection.failed")["reason"])
        assert inside.log_in(init("ANONYMOUS")) == 0
        opens(inside, "inside")
        gateway.await_event("connection.failed", 3)  # the two took too long
        with Login(gateway.port, authority.client()) as login:
            assert login.log_in(init("ANONYMOUS")) == 0


def test_passwords_go_over_tls_as_well(
    own_gateway: Make, authority: Authority, server: Files
) -> None:
    """SCRAM and PLAIN, beside certificates."""
    users = authority.folder / "users.toml"
    with changing(users) as known:
        known["alice"] = user_of("wonderland")
    settings = tls(server, authority, users=str(users), anonymous=False)
    with own_gateway(settings) as gateway:
        with Login(gateway.port, authority.client()) as login:
            assert login.mechanisms == ["SCRAM-SHA-256", "PLAIN"]
            assert login.scram("alice", "wonderland") == 0
        with Login(gateway.port, authority.client()) as login:
            assert login.log_in(plain("alice", "wonderland")) == 0
