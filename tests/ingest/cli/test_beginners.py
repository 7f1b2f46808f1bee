"""What goes wrong in the first hour: each mistake is one sentence that says what to do, an exit
code, and no traceback."""

import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fork_server import clean_environment, commands
from gateway_process import Gateway, free_port


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


@pytest.mark.parametrize("words", ASKERS, ids=" ".join)
def test_nothing_listens_there(words: tuple[str, ...]) -> None:
    port = free_port()
    said = sentence(run(*words, "--gateway", f"127.0.0.1:{port}"))
    assert f" answers at amqp://127.0.0.1:{port}: " in said
    assert "refused" in said


@pytest.mark.parametrize("words", ASKERS, ids=" ".join)
def test_something_else_listens_there(words: tuple[str, ...], web: int) -> None:
    said = sentence(run(*words, "--gateway", f"127.0.0.1:{web}", "--timeout", "1"))
    assert "what listens there hasn't opened an AMQP connection within 1 s" in said


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
