"""Mistakes of the first hour: each gets one sentence that says what to do, an exit code, and no
traceback."""

import http.server
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from fork_server import clean_environment, commands
from gateway_certificates import Authority
from gateway_process import SCRIPT, Gateway, free_port

from distributary.ingest.cli.answer_tables import STUCK, SUBSCRIPTIONS, show_rows
from distributary.ingest.cli.main import cli
from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing
from distributary.jobs.cli.gateway_options import PASSWORD


def run(
    *words: str, environment: dict[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """The command as a user has it, with nothing on stdin."""
    return commands().run(*words, environment={**clean_environment(), **(environment or {})})


def sentence(done: "subprocess.CompletedProcess[str]") -> str:
    """The last line of stderr, of one that failed in order."""
    assert done.returncode in (1, 2, 3, 4), (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr.rstrip().rpartition("\n")[2]


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    """The port of something that is no gateway."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


#: What asks a gateway, each with a word of its own kind.
ASKERS = (
    ("subscription", "list"),
    ("queue", "list"),
    ("topic", "list"),
    ("publish", "t", "x"),
    ("consume", "t", "--count", "1"),
    ("peek", "queue://q"),
    ("queue", "show", "q"),
)


def test_a_home_on_a_store_is_not_taken_for_a_folder() -> None:
    """By what works on homes on a disk alone."""
    done = run("console", "--gateway", "127.0.0.1:1", "--home", "s3://lake/home")
    assert "s3://lake/home is the address of a store" in sentence(done)
    assert done.returncode == 2
    assert not Path("s3:").exists()


@pytest.mark.parametrize("words", ASKERS, ids=" ".join)
def test_nothing_listens_there(words: tuple[str, ...]) -> None:
    port = free_port()
    said = sentence(run(*words, "--gateway", f"127.0.0.1:{port}"))
    assert f" answers at amqp://127.0.0.1:{port}: " in said
    assert "refused" in said


@pytest.mark.parametrize("words", ASKERS, ids=" ".join)
def test_something_else_listens_there(words: tuple[str, ...], web: int) -> None:
    said = sentence(run(*words, "--gateway", f"127.0.0.1:{web}", "--timeout", "1"))
    assert "the listener there hasn't opened an AMQP connection within 1 s" in said


@pytest.mark.parametrize("place", ["127.0.0.1:99999", "http://127.0.0.1", "127.0.0.1:x"])
@pytest.mark.parametrize("words", ASKERS, ids=" ".join)
def test_a_place_that_can_not_be(words: tuple[str, ...], place: str) -> None:
    done = run(*words, "--gateway", place)
    assert done.returncode == 2
    assert "is no gateway: say amqp://user:password@host:port" in sentence(done)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that runs."""
    with Gateway(tmp_path_factory.mktemp("lake"), {}) as running:
        yield running


def test_a_home_that_is_in_use(lake: Gateway) -> None:
    said = sentence(run("serve", "--home", str(lake.home), "--listen", "127.0.0.1:0"))
    assert str(lake.home) in said
    assert "is in use by the gateway with pid" in said


def test_a_port_that_is_taken(tmp_path: Path, web: int) -> None:
    done = run("serve", "--home", str(tmp_path / "home"), "--listen", f"127.0.0.1:{web}")
    assert f"can't listen on 127.0.0.1:{web}: Address already in use; --listen names another" in (
        sentence(done)
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[amqp", "conf.toml is not TOML"),
        ("[amqp]\nfoo = 1", "conf.toml: unknown key amqp.foo"),
        ('[amqp]\nunsettled_max = "x"', "conf.toml: amqp.unsettled_max: expected `int`"),
        ('[gateway]\nlisten = "127.0.0.1:99999"', "conf.toml: gateway.listen"),
        ('[security]\nanonymous = "never"', 'it may be "loopback" or true or false'),
        ('[journal]\ndurability = "none"', "durability: invalid enum value 'none'; it may be \"j"),
    ],
)
def test_settings_that_can_not_be(tmp_path: Path, text: str, says: str) -> None:
    """The file and the key are named."""
    file = tmp_path / "conf.toml"
    file.write_text(text)
    done = run("serve", "--home", str(tmp_path / "home"), "--config", str(file))
    assert (done.returncode, says in sentence(done)) == (2, True), done.stderr


@pytest.mark.parametrize("home", ["/proc/home", "file", "missing/../file/x"])
def test_a_home_that_can_not_be(tmp_path: Path, home: str) -> None:
    (tmp_path / "file").write_text("mine")
    place = tmp_path / home
    said = sentence(run("serve", "--home", str(place), "--listen", "127.0.0.1:0"))
    assert "can't be a gateway's home" in said
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("words", [("info",), ("verify",), ("jobs", "materialize")], ids=" ".join)
def test_a_home_that_is_not_there(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run(*words, "--home", str(tmp_path / "nothing"))
    assert str(tmp_path / "nothing") in sentence(done)
    assert not (tmp_path / "nothing").exists()


def test_there_is_no_java(lake: Gateway) -> None:
    environment = {"PATH": str(lake.home), "JAVA_HOME": ""}
    said = sentence(run("jobs", "materialize", "--home", str(lake.home), environment=environment))
    assert "Java" in said


def test_an_address_of_an_unknown_scheme(lake: Gateway) -> None:
    gateway = f"127.0.0.1:{lake.port}"
    for words in (("publish", "foo://q", "x"), ("consume", "foo://q", "--count", "1")):
        assert "foo://" in sentence(run(*words, "--gateway", gateway))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("queue", "create", "foo://q"), "an address begins with topic:// or queue://"),
        (("queue", "create", "topic://q"), "'topic://q' is a topic, no queue"),
        (("queue", "show", "topic://q"), "'topic://q' is a topic, no queue"),
        (("topic", "show", "queue://q"), "'queue://q' is a queue, no topic"),
        (("topic", "show", "foo://q"), "an address begins with topic:// or queue://"),
        (("consume", "queue://q", "--durable", "x"), "'queue://q' is a queue, no topic"),
        (("consume", "queue://q", "--durable", "x", "--shared"), "'queue://q' is a queue"),
        (("peek", "topic://q"), "'topic://q' is a topic, no queue"),
        (("subscription", "create", "global/x", "--topic", "queue://q"), "is a queue, no topic"),
        (("subscription", "create", "global/x", "--topic", "foo://q"), "begins with topic://"),
        (("subscription", "show", "x"), "global/x, container/CONTAINER/x or queue/x"),
        (("subscription", "show", "queue/a/b"), "; / in a name is %2F"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_address_or_id_of_another_kind(lake: Gateway, words: tuple[str, ...], says: str) -> None:
    done = run(*words, "--gateway", f"127.0.0.1:{lake.port}")
    assert (done.returncode, says in sentence(done)) == (2, True), done.stderr


@pytest.mark.parametrize("listen", ["5672", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x"])
def test_a_port_that_can_not_be(tmp_path: Path, listen: str) -> None:
    done = run("serve", "--home", str(tmp_path / "home"), "--listen", listen)
    assert done.returncode == 2
    assert f"gateway.listen is '{listen}'" in sentence(done)
    assert not (tmp_path / "home").exists()


def test_java_is_too_old(lake: Gateway, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    environment = {"JAVA_HOME": str(tmp_path)}
    said = sentence(run("jobs", "materialize", "--home", str(lake.home), environment=environment))
    assert "Spark needs Java 17 or newer and this is Java 11" in said
    assert "JAVA_HOME" in said


@dataclass(frozen=True)
class Guarded:
    """A gateway that knows users, on two ports: `port` in the clear, `tls_port` with TLS."""

    port: int
    tls_port: int
    authority: Path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder)
    chain, key = authority.issue("server", "localhost")
    with changing(folder / "users.toml") as users:
        users["alice"] = user_of("wonderland")
    (folder / "permissions.toml").write_text('[alice]\npublish = ["orders"]\n')
    security = {
        "users": str(folder / "users.toml"),
        "permissions": str(folder / "permissions.toml"),
        "anonymous": False,
    }
    files = {"tls_certificate": str(chain), "tls_key": str(key)}
    with (
        Gateway(folder / "clear", {"security": security}) as clear,
        Gateway(folder / "tls", {"security": security | files}) as secured,
    ):
        yield Guarded(clear.port, secured.port, authority.file)


def asked(guarded: Guarded, scheme: str, *words: str, user: str = "", password: str = "") -> str:
    """The sentence of a command to the gateway in the clear (amqp, tls) or the other one."""
    port = guarded.port if scheme in ("amqp", "tls-on-amqp") else guarded.tls_port
    said = "amqps" if scheme in ("amqps", "tls-on-amqp") else "amqp"
    login = ("--user", user) if user else ()
    done = run(
        *words,
        *("--gateway", f"{said}://localhost:{port}", "--timeout", "5"),
        *login,
        environment={PASSWORD: password},
    )
    return sentence(done)


LIST = ("subscription", "list")


def test_tls_where_there_is_none_and_none_where_it_is_wanted(guarded: Guarded) -> None:
    plain = asked(guarded, "amqp-on-tls", *LIST)
    assert f"if it speaks TLS, say amqps://localhost:{guarded.tls_port}, and --tls-ca" in plain
    tls = asked(guarded, "tls-on-amqp", *LIST)
    assert f"doesn't speak TLS; say amqp://localhost:{guarded.port}" in tls
    unknown = asked(guarded, "amqps", *LIST)
    assert "its certificate isn't one for localhost by an authority that is known here" in unknown
    known = asked(guarded, "amqps", *LIST, "--tls-ca", str(guarded.authority))
    assert "it takes no connection without a login; say --user" in known
    absent = asked(guarded, "amqps", *LIST, "--tls-ca", "nowhere.pem")
    assert "a file for TLS can't be used" in absent


def test_who_is_not_let_in(guarded: Guarded) -> None:
    assert "no connection without a login; say --user" in asked(guarded, "amqp", *LIST)
    for user, password in (("alice", "x"), ("bob", "wonderland")):
        said = asked(guarded, "amqp", *LIST, user=user, password=password)
        assert f"it doesn't let '{user}' in: there is no such user, or the password is" in said


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("publish", "bills", "x"), "publish 'bills'"),
        (("consume", "orders", "--count", "1"), "consume 'orders'"),
        (("queue", "create", "q"), "create or manage 'queue://q'"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_a_user_may_not(guarded: Guarded, words: tuple[str, ...], what: str) -> None:
    """The login itself is by PLAIN: the client's library knows no SCRAM."""
    said = asked(guarded, "amqp", *words, user="alice", password="wonderland")  # noqa: S106
    assert f"user 'alice' has no permission to {what}" in said


def test_no_number_heading_or_time_is_broken_by_a_narrow_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    long, at = "container/distributary-cli/billing", "2026-11-28T15:28:17.905813+00:00"
    numbers = {"consumers": 12, "in_flight": 0, "backlog": 1_234_567, "floor": 3}
    row = {"name": long, "topic": "orders", **numbers, "paused": False}
    show_rows(SUBSCRIPTIONS, [row], "subscriptions")
    row = {"reason": "nobody connected", "messages": 8, "oldest_at": at, "example": 0}
    show_rows(STUCK, [{**row, "detail": "nobody connected"}], "stuck messages")
    shown = capsys.readouterr().out
    for whole in ("Consumers", "In flight", "1,234,567", long, at, "Messages"):
        assert whole in shown


def test_every_command_has_help_by_h() -> None:
    """Each command, group and job: what it is for, and one line at least that can be typed."""
    context = click.Context(cli)
    paths = [()]
    for name in cli.list_commands(context):
        paths.append((name,))
        command = cli.get_command(context, name)
        if isinstance(command, click.Group):
            paths += [(name, one) for one in command.list_commands(context)]
    assert ("jobs", "drain") in paths
    for path in paths:
        done = run(*path, "-h")
        assert (done.returncode, done.stderr) == (0, ""), path
        assert done.stdout.startswith(" ".join(("Usage: distributary", *path))), path
        if path:
            assert f"distributary {' '.join(path)}" in done.stdout, path


def test_a_port_of_the_systems_choice_is_said(tmp_path: Path) -> None:
    """`--listen HOST:0`: the line that it listens has the port, so clients can be told."""
    process = subprocess.Popen(
        [SCRIPT, "serve", "--home", tmp_path / "home", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = next(line for line in process.stdout if "listening " in line and "http" not in line)
    port = re.search(r"address=127\.0\.0\.1:(\d+)", said)
    assert port is not None, said
    socket.create_connection(("127.0.0.1", int(port[1]))).close()
    process.terminate()
    process.communicate()
