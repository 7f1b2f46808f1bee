"""Logging in over real sockets: which ways are offered, which lead in, and what broken ones do."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from gateway_frames import AMQP_HEADER, OPEN, Raw, open_frame
from gateway_peer import Connect
from gateway_process import PATIENCE, Gateway
from gateway_sasl import CHALLENGE, OUTCOME, Login, ScramClient, frame, init, plain, response

from distributary.ingest.security.users import hashed, user_of
from distributary.ingest.security.users_file import changing

Make = Callable[..., Gateway]
PASSWORD = "wonderland"  # noqa: S105 (alice's, who is made up)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Alice can use all, old bob has a hash of before."""
    file = tmp_path_factory.mktemp("users") / "users.toml"
    file.write_text(f'bob = "{hashed("builder")}"\n')
    with changing(file) as known:
        known["alice"] = user_of(PASSWORD)
    return file


@pytest.fixture(scope="module")
def guarded(users: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that knows alice and bob, and lets no client in without a login."""
    settings = {"security": {"users": str(users), "anonymous": False}}
    with Gateway(tmp_path_factory.mktemp("guarded"), settings) as gateway:
        yield gateway


def opens(raw: Raw, container: str) -> None:
    """AMQP speaks: an open is answered."""
    raw.send(open_frame(container))
    raw.next(OPEN)


def test_what_can_lead_in_is_offered(guarded: Gateway, gateway: Gateway) -> None:
    """SCRAM is offered if a user has keys for it, EXTERNAL to peers with a certificate."""
    with Login(guarded.port) as login:
        assert login.mechanisms == ["SCRAM-SHA-256", "PLAIN"]
    with Login(gateway.port) as login:
        assert login.mechanisms == ["PLAIN", "ANONYMOUS"]


def test_scram_leads_in(guarded: Gateway) -> None:
    """And the gateway shows that it knows the password, too."""
    with Login(guarded.port) as login:
        assert login.scram("alice", PASSWORD) == 0
        opens(login, "scram")


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "looking-glass"), ("bob", "builder"), ("eve", "apple")]
)
def test_scram_refuses_all_others_alike(guarded: Gateway, user: str, password: str) -> None:
    """A wrong password, a user without keys and an unknown user get answers that look the same."""
    said = {}
    for name in (user, "alice", user):
        with Login(guarded.port) as login:
            client = ScramClient(name, password, nonce="ours")
            login.send(init("SCRAM-SHA-256", client.first()))
            [challenge] = login.sasl(CHALLENGE)
            _, salt, iterations = challenge.decode().split(",")
            assert said.get(name, salt) == salt
            said[name] = salt
            assert (len(challenge), len(salt), iterations) == (65, 26, "i=32768")
            login.send(response(client.final(challenge)))
            assert login.outcome() == 1
            assert login.rest() == b""
    assert f"'{user}'" in str(guarded.events("connection.failed")[-1]["reason"])


def test_the_salt_of_a_stranger_survives_a_restart(own_gateway: Make, users: Path) -> None:
    """Or two looks would tell who is there."""
    gateway = own_gateway({"security": {"users": str(users)}})
    salts = []
    for _ in range(2):
        with gateway, Login(gateway.port) as login:
            login.send(init("SCRAM-SHA-256", b"n,,n=eve,r=ours"))
            salts.append(login.sasl(CHALLENGE)[0].split(b",")[1])
    assert salts[0] == salts[1]


@pytest.mark.parametrize(
    ("user", "password", "outcome"),
    [
        ("alice", PASSWORD, 0),
        ("bob", "builder", 0),
        ("ali\u00adce", "wonder\u00adland", 0),
        ("alice", "builder", 1),
        ("eve", "builder", 1),
        ("", "", 1),
    ],
)
def test_plain_leads_in_with_the_password(
    guarded: Gateway, user: str, password: str, outcome: int
) -> None:
    """For hashes of before, too."""
    with Login(guarded.port) as login:
        assert login.log_in(plain(user, password)) == outcome


def test_a_gateway_without_users_takes_any_password_and_believes_no_name(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """On loopback, for clients that insist on a login: a client with one is as anonymous as
    others."""
    permissions = tmp_path / "permissions.toml"
    permissions.write_text('[admin]\npublish = ["*"]\n')
    with own_gateway({"security": {"permissions": str(permissions)}}) as gateway:
        peer = connect(port=gateway.port, user="admin", password="admin")  # noqa: S106
        link = peer.sender("orders", opened=False)
        assert peer.amqp_error(link) == "amqp:unauthorized-access"
        assert gateway.events("permission.refused")[0]["user"] == "anonymous"


#: Bytes after the offer that no client should send, and what the log says of them.
BROKEN: dict[str, tuple[bytes, str]] = {
    "a frame of 4 GiB": (b"\xff\xff\xff\xff\x02\x01\x00\x00", "bytes at most"),
    "a frame beyond the limit": (
        (5_000).to_bytes(4, "big") + b"\x02\x01\0\0" + bytes(4_992),
        "4096",
    ),
    "a frame without a head": (b"\x00\x00\x00\x03\x02\x01\x00\x00", "bytes at most"),
    "an empty frame": (b"\x00\x00\x00\x08\x02\x01\x00\x00", "bytes at most"),
    "an AMQP frame": (open_frame("early"), "bytes at most"),
    "a header instead of a frame": (AMQP_HEADER, "bytes at most"),
    "a response before any init": (response(b"x"), "sasl-response came"),
    "an outcome of its own": (frame(OUTCOME, 0), "neither"),
    "a challenge of its own": (frame(CHALLENGE, b"x"), "neither"),
    "a mechanism that was not offered": (init("EXTERNAL"), "not offered"),
    "anonymous": (init("ANONYMOUS"), "not offered"),
    "no mechanism": (frame(0x41, None, b""), "symbol"),
    "a response that is a text": (frame(0x41, "PLAIN", "text"), "symbol"),
    "a login that is no UTF-8": (init("PLAIN", b"\0al\xff\0x"), "utf-8"),
    "a login without a password": (init("PLAIN", b"\0alice"), "broken"),
    "a login with more": (init("PLAIN", b"\0alice\0x\0y"), "broken"),
    "a login for somebody else": (plain("alice", PASSWORD, act_as="root"), "can't act as 'root'"),
    "a name with a bell in it": (plain("al\u0007ice", PASSWORD), "U+0007"),
    "scram without a message": (init("SCRAM-SHA-256", None), "first message"),
    "scram that is no UTF-8": (init("SCRAM-SHA-256", b"n,,n=\xff,r=x"), "utf-8"),
    "scram with channel binding": (
        init("SCRAM-SHA-256", b"p=tls-unique,,n=alice,r=x"),
        "first message",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_login_ends_its_connection(guarded: Gateway, what: str) -> None:
    """With the outcome `auth`; the log says what was wrong, and others are let in."""
    sent, says = BROKEN[what]
    before = len(guarded.events("connection.failed"))
    with Login(guarded.port) as login:
        login.send(sent)
        assert login.outcome() == 1
        assert login.rest() == b""
    failed = guarded.await_event("connection.failed", before + 1)
    assert says in str(failed["reason"])
    with Login(guarded.port) as login:
        assert login.log_in(plain("alice", PASSWORD)) == 0


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (init("SCRAM-SHA-256", b"n,,n=alice,r=again"), "sasl-init came"),
        (plain("alice", PASSWORD), "sasl-init came"),
        (response(b"c=biws,r=liar,p=AAAA"), "nonce"),
        (response(b""), "final message"),
        (response(b"\xff"), "utf-8"),
    ],
)
def test_a_scram_client_that_goes_its_own_way_is_refused(
    guarded: Gateway, sent: bytes, says: str
) -> None:
    """A second init, another nonce, no proof."""
    before = len(guarded.events("connection.failed"))
    with Login(guarded.port) as login:
        login.send(init("SCRAM-SHA-256", b"n,,n=alice,r=ours"))
        login.sasl(CHALLENGE)
        login.send(sent)
        assert login.outcome() == 1
        assert login.rest() == b""
    assert says in str(guarded.await_event("connection.failed", before + 1)["reason"])


def test_a_second_login_while_the_first_is_checked_changes_nothing(guarded: Gateway) -> None:
    """Bytes behind the first login wait for its outcome; then they are no AMQP."""
    with Login(guarded.port) as login:
        login.send(plain("eve", "x") + plain("alice", PASSWORD))
        assert login.outcome() == 1
        assert login.rest() == b""
    with Login(guarded.port) as login:
        login.send(plain("alice", PASSWORD) + plain("alice", PASSWORD))
        assert login.outcome() == 0
        login.rest()
    guarded.await_event("connection.failed")


def test_a_peer_that_sends_on_while_its_password_is_checked_is_ended(guarded: Gateway) -> None:
    """The bytes that it sends ahead are kept, so they have a limit."""
    before = len(guarded.events("connection.failed"))
    with Login(guarded.port) as login:
        with suppress(ConnectionError):
            login.send(plain("alice", PASSWORD) + bytes(4 << 20))
        login.rest()
    failed = guarded.await_event("connection.failed", before + 1)
    assert "too much before the outcome" in str(failed["reason"])


def test_a_login_that_takes_its_time_is_dropped(own_gateway: Make, users: Path) -> None:
    """Wherever it stops; a byte now and then doesn't keep it."""
    settings = {"security": {"users": str(users)}, "amqp": {"handshake_ms_max": 2_500}}
    with own_gateway(settings) as gateway:
        with Login(gateway.port) as login:
            login.send(init("SCRAM-SHA-256", b"n,,n=alice,r=ours"))
            login.sasl(CHALLENGE)
            login.rest()
        with Login(gateway.port) as login:
            began = time.monotonic()
            drip = iter(plain("alice", PASSWORD))
            with pytest.raises(OSError):  # noqa: PT012 (it ends somewhere on the way)
                while time.monotonic() < began + PATIENCE:
                    login.send(bytes([next(drip)]))
                    time.sleep(0.1)  # the stimulus: a byte now and then
        assert len(gateway.events("connection.failed")) == 2


def test_a_thousand_wrong_passwords_leave_others_served(
    own_gateway: Make, users: Path, connect: Connect
) -> None:
    """A client that is logged in sends and receives meanwhile, a new one logs in by SCRAM; for
    clients that have gone no check is made."""
    settings = {"security": {"users": str(users), "anonymous": True}}
    with own_gateway(settings) as gateway:
        peer = connect(port=gateway.port)
        receiver, sender = peer.receiver("t"), peer.sender("t")
        guesses = [Login(gateway.port) for _ in range(1_000)]
        for number, guess in enumerate(guesses):
            guess.send(plain("alice", f"guess {number}"))
        for number in range(20):
            sender.publish(str(number))
        assert receiver.bodies(20) == [str(number) for number in range(20)]
        with Login(gateway.port) as login:
            assert login.scram("alice", PASSWORD) == 0
        assert guesses[0].outcome() == 1
        for guess in guesses:
            guess.socket.close()
        # A check takes tens of milliseconds: a thousand of them would take longer than it waits.
        with Login(gateway.port) as login:
            assert login.log_in(plain("alice", PASSWORD)) == 0
        assert not gateway.events("gateway.bug")


#: What a gateway that others can reach is told, and what is offered to them.
REACHABLE: dict[str, tuple[dict[str, object], list[str]]] = {
    "users": ({"users": True}, ["SCRAM-SHA-256", "PLAIN"]),
    "users, and anybody, said so": (
        {"users": True, "anonymous": True},
        ["SCRAM-SHA-256", "PLAIN", "ANONYMOUS"],
    ),
    "anybody, said so": ({"anonymous": True}, ["ANONYMOUS"]),
}


@pytest.mark.parametrize("what", REACHABLE)
def test_a_gateway_that_others_reach_offers_what_was_said(
    own_gateway: Make, users: Path, what: str
) -> None:
    """ANONYMOUS is offered only where the settings say so."""
    security, offered = REACHABLE[what]
    gateway = own_gateway(
        {"security": security | ({"users": str(users)} if "users" in security else {})}
    )
    gateway.options = ["--listen", f"0.0.0.0:{gateway.port}"]
    with gateway, Login(gateway.port) as login:
        assert login.mechanisms == offered


def test_a_gateway_that_others_reach_wants_a_login(own_gateway: Make) -> None:
    """Without users and authority it doesn't start, and says what to do."""
    gateway = own_gateway()
    gateway.options = ["--listen", f"0.0.0.0:{gateway.port}"]
    gateway.spawn()
    gateway.ended(2)
    assert "no user could log in at 0.0.0.0" in gateway.log
    assert "security.anonymous = true" in gateway.log


def test_users_are_read_again_when_they_change(own_gateway: Make, tmp_path: Path) -> None:
    """Within a second or two, without a restart; a broken file changes nothing and is told once."""
    file = tmp_path / "users.toml"
    with changing(file) as known:
        known["alice"] = user_of(PASSWORD)
    settings = {"security": {"users": str(file), "anonymous": False}}
    with own_gateway(settings) as gateway, ExitStack() as connections:
        inside = connections.enter_context(Login(gateway.port))
        assert inside.scram("alice", PASSWORD) == 0

        with changing(file) as known:
            del known["alice"]
            known["carol"] = user_of("chess")
        gateway.await_event("security.reloaded")
        with Login(gateway.port) as login:
            assert login.scram("carol", "chess") == 0
        with Login(gateway.port) as login:
            assert login.scram("alice", PASSWORD) == 1
        opens(inside, "she stays")

        file.write_text('carol = "chess"\n')
        kept = gateway.await_event("security.kept")
        assert str(file) in str(kept["reason"])
        time.sleep(2.5)  # the stimulus: it looks at its files once a second
        assert len(gateway.events("security.kept")) == 1
        with Login(gateway.port) as login:
            assert login.scram("carol", "chess") == 0

        file.unlink()
        gateway.await_event("security.kept", 2)
        with changing(file) as known:
            known["dan"] = user_of("dodo")
        gateway.await_event("security.reloaded", 2)
        with Login(gateway.port) as login:
            assert login.scram("dan", "dodo") == 0
