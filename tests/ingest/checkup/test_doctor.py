"""`distributary doctor` on real disks, ports and homes: its findings, its exit code, and that it
leaves nothing behind and disturbs no gateway."""

import http.server
import json
import subprocess
import threading
from pathlib import Path

import pytest
from fork_server import SCRIPT, clean_environment, commands
from gateway_peer import Peer
from gateway_process import Gateway, free_port

MEMORY = Path("/dev/shm")  # noqa: S108 (what it is is the test)


#: The default port of metrics is the machine's: other tests may have it.
PLACE = clean_environment() | {"DISTRIBUTARY_HTTP_LISTEN": ""}


def doctor(*words: str | Path) -> tuple[int, dict[str, list[tuple[str, str]]]]:
    """Its exit code, and the sentences of each subject with their verdicts."""
    done = commands().run("doctor", "--json", *map(str, words), environment=PLACE)
    assert "Traceback" not in done.stderr
    found: dict[str, list[tuple[str, str]]] = {}
    for one in json.loads(done.stdout):
        found.setdefault(one["subject"], []).append((one["verdict"], one["sentence"]))
    return done.returncode, found


def free() -> tuple[str, str]:
    return "--listen", f"127.0.0.1:{free_port()}"


def test_a_home_that_will_be(tmp_path: Path) -> None:
    """The disk is tried where the home will be; nothing is left there."""
    code, found = doctor("--home", tmp_path / "a" / "b", *free())
    assert found["home"] == [
        ("good", f"{tmp_path / 'a' / 'b'} isn't there; a gateway will make it.")
    ]
    assert found["fsync"][0][1].startswith(("An fsync on", "It is"))
    assert found["gateway.listen"][0][0] == "good"
    assert code == int(any(one[0] == "bad" for some in found.values() for one in some))
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not MEMORY.is_dir(), reason="no memory is mounted")
def test_memory_is_no_disk() -> None:
    code, found = doctor("--home", MEMORY / "orders", *free())
    [(verdict, sentence)] = found["fsync"]
    assert (code, verdict) == (1, "bad")
    assert "It is tmpfs, which is memory" in sentence
    assert not list(MEMORY.glob(".doctor*"))


def test_beside_a_gateway(tmp_path: Path) -> None:
    """It runs on: its lock and its ports are its own."""
    with Gateway(tmp_path) as running:
        words = ("--home", running.home, "--config", running.config)
        _, found = doctor(*words, "--listen", f"127.0.0.1:{running.port}")
        assert running.process is not None
        assert f"the gateway with pid {running.process.pid}" in found["home"][0][1]
        assert found["gateway.listen"] == [
            ("good", f"An AMQP server listens on 127.0.0.1:{running.port} already.")
        ]
        with Peer(running.port) as peer:
            peer.sender("orders").publish(b"1")
        names = {one.name for one in running.home.iterdir()}
        assert not [one for one in names if one.startswith(".doctor")]
        _, other = doctor("--home", tmp_path / "other", "--listen", f"127.0.0.1:{running.port}")
        assert other["gateway.listen"][0][0] == "bad"
        running.stop()
    _, found = doctor(*words, *free())
    assert "none runs on it" in found["home"][0][1]


def test_a_port_of_something_else(tmp_path: Path) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"127.0.0.1:{server.server_address[1]}"
    code, found = doctor("--listen", at)
    server.shutdown()
    server.server_close()
    told = f"Another program listens on {at}: stop it, or name another port by gateway.listen."
    assert (code, found["gateway.listen"]) == (1, [("bad", told)])


def test_an_address_that_is_not_of_this_machine(tmp_path: Path) -> None:
    config = tmp_path / "g.toml"
    config.write_text("[security]\nanonymous = true\n")
    code, found = doctor("--listen", "192.0.2.1:5672", "--config", config)
    assert (code, found["gateway.listen"][0][0]) == (1, "bad")
    assert "Nothing can listen on 192.0.2.1:5672: " in found["gateway.listen"][0][1]


def test_homes_that_can_not_be_or_should_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for home in (tmp_path / "file", tmp_path / "file" / "below"):
        code, found = doctor("--home", home, *free())
        assert (code, found["home"][0][0]) == (1, "bad")
        assert "can't be a home" in found["home"][0][1]
    _, found = doctor("--home", tmp_path, *free())
    assert found["home"] == [
        ("look", f"{tmp_path} has files, and none of a gateway's: is it the right folder?")
    ]
    tmp_path.chmod(0o777)
    _, found = doctor("--home", tmp_path, *free())
    assert "chmod o-w" in found["home"][-1][1]
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_settings_and_their_files(tmp_path: Path) -> None:
    """Wrong ones are named, and the rest is looked at all the same."""
    users, config = tmp_path / "users.toml", tmp_path / "g.toml"
    config.write_text(f'[security]\nusers = "{users}"\n')
    for mode, verdict in ((0o644, "bad"), (0o600, "good")):
        users.write_text("")
        users.chmod(mode)
        code, found = doctor("--config", config, *free())
        assert (code, found["users"][0][0]) == (int(verdict == "bad"), verdict)
    users.unlink()
    assert doctor("--config", config, *free())[1]["users"][0][0] == "bad"
    config.write_text("[amqp]\nfoo = 1\n")
    code, found = doctor("--config", config)
    assert (code, found["settings"][0][0]) == (1, "bad")
    assert "g.toml: unknown key amqp.foo" in found["settings"][0][1]
    assert "open files" in found


def test_few_open_files_and_no_java(tmp_path: Path) -> None:
    """Something to look at is no failure."""
    done = subprocess.run(
        [
            "/bin/sh",
            "-c",
            f'ulimit -n 700; exec "{SCRIPT}" doctor --listen 127.0.0.1:{free_port()}',
        ],
        env=PLACE | {"PATH": str(tmp_path), "JAVA_HOME": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "look  open files     A process may open 700 files" in done.stdout
    assert "look  java           Spark needs Java 17 or newer and there is none" in done.stdout
