"""`distributary subscription`, `queue` and `topic`: real commands against a real gateway."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import commands
from gateway_certificates import Authority
from gateway_peer import Connect
from gateway_process import Gateway, free_port, until

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing
from distributary.jobs.cli.gateway_options import PASSWORD

Run = Callable[..., subprocess.CompletedProcess[str]]


def command(*words: str, port: int, **environment: str) -> subprocess.CompletedProcess[str]:
    place = {**os.environ, "DISTRIBUTARY_GATEWAY": f"127.0.0.1:{port}", "COLUMNS": "160"}
    return commands().run(*words, environment={**place, **environment}, timeout=60)


@pytest.fixture
def run(gateway: Gateway) -> Run:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return command(*words, port=gateway.port)

    return run


def done(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_ids_are_whole_on_a_narrow_screen(gateway: Gateway, topic: str) -> None:
    """An id can be copied whole from a list; only descriptive words are wrapped."""
    id_ = f"container/a-service-with-a-long-name/{topic}-and-a-long-name-of-its-own"
    narrow = {"port": gateway.port, "COLUMNS": "80"}
    create = ("subscription", "create", id_, "--topic", f"topic-of-{topic}")
    done(command(*create, "--policy", "delivery_attempts_max=5", **narrow))
    for words in (
        ("subscription", "list", "--topic", f"topic-of-{topic}"),
        ("info", "--home", str(gateway.home)),
    ):
        # `info` knows it as soon as it is committed.
        line = until(
            lambda words=words: [
                one for one in done(command(*words, **narrow)).splitlines() if id_ in one
            ],
            f"{id_} in {words[0]}",
            every=0.2,
        )[0]
        assert f" topic-of-{topic} " in line
    shown = done(command("subscription", "show", id_, **narrow))
    assert id_ in shown
    assert max(map(len, shown.splitlines())) < 2 * len(id_) + 20
    short = "global/narrow"
    done(command("subscription", "create", short, "--topic", "narrow", **narrow))
    found = done(command("subscription", "list", "--topic", "narrow", **narrow))
    assert max(map(len, found.splitlines())) <= 80
    done(command("subscription", "delete", id_, "--yes", **narrow))
    done(command("subscription", "delete", short, "--yes", **narrow))


def test_a_subscription_from_its_making_to_its_end(run: Run, connect: Connect, topic: str) -> None:
    """Each command says what it did, and the next one finds it so."""
    name = f"global/{topic}"
    assert "has been made" in done(run("subscription", "create", name, "--topic", topic))
    peer = connect()
    sender = peer.sender(topic)
    sender.publish("a", "b")
    rows = json.loads(done(run("subscription", "list", "--topic", topic, "--json")))
    assert [row["name"] for row in rows] == [name]
    assert "is paused" in done(run("subscription", "pause", name))
    consumer = peer.shared_durable(topic, f"{topic}|global")
    assert consumer.nothing()
    assert "goes on" in done(run("subscription", "resume", name))
    assert consumer.bodies(2) == ["a", "b"]
    done(run("subscription", "rewind", name, "--to", str(rows[0]["floor"])))
    assert consumer.bodies(2) == ["a", "b"]
    done(run("subscription", "set", name, "lock_ms=5000", "consumers_max=2"))
    done(run("subscription", "set", name, "consumers_max="))
    row = json.loads(done(run("subscription", "show", name, "--json")))
    assert row["policy"] == {"lock_ms": 5000}
    sender.publish("c")
    done(run("subscription", "skip", name, "--yes"))
    sender.publish("d")
    done(run("subscription", "purge", name, "--yes"))
    assert consumer.nothing()
    assert "1 links have ended" in done(run("subscription", "close", name))
    assert peer.amqp_error(consumer) == "amqp:link:detach-forced"
    assert "has been deleted" in done(run("subscription", "delete", name, "--yes"))
    assert run("subscription", "show", name).returncode == 3


def test_a_queue_and_a_topic_are_listed_and_shown(run: Run, connect: Connect, topic: str) -> None:
    assert "has been made" in done(run("queue", "create", topic, "--policy", "consumers_max=1"))
    peer = connect()
    peer.sender(f"queue://{topic}")
    peer.sender(topic)
    assert topic in done(run("queue", "list"))
    assert topic in done(run("topic", "list"))
    assert json.loads(done(run("queue", "show", topic, "--json")))["producers"] == 1
    assert json.loads(done(run("topic", "show", topic, "--json")))["producers"] == 1
    done(run("queue", "set", topic, "--clear", "lock_ms=5"))
    row = json.loads(done(run("queue", "show", topic, "--json")))
    assert row["policy"] == {"lock_ms": 5}
    assert "lock_ms = 5" in done(run("queue", "show", topic))
    assert run("queue", "delete", topic, "--yes").returncode == 4
    done(run("queue", "delete", topic, "--yes", "--force"))
    assert topic not in {row["name"] for row in json.loads(done(run("queue", "list", "--json")))}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("subscription", "show", "global/nobody"), 3, "there is no subscription global/nobody"),
        (("subscription", "show", "nobody"), 2, "is no subscription's id"),
        (("subscription", "rewind", "global/x", "--to", "soon"), 3, "there is no"),
        (("subscription", "purge", "queue/x"), 2, "Say --yes"),
        (("subscription", "set", "queue/x", "lock"), 3, "there is no"),
        (("queue", "create", "q", "--policy", "lock"), 2, "is no KEY=VALUE"),
        (("queue", "create", "q", "--policy", "lock_ms=soon"), 2, "lock_ms"),
        (("topic", "show", "queue://q"), 2, "is a queue, no topic"),
        (("queue", "list", "--user", "eve"), 2, "no password"),
        (("topic", "show", "t\udcff"), 2, "isn't UTF-8"),
        (("queue", "create", "q\udcff"), 2, "isn't UTF-8"),
        (("queue", "list", "--gateway", "\udcff:5672"), 2, "isn't UTF-8"),
        (("publish", "queue://\udcff", "x"), 2, "isn't UTF-8"),
        (("consume", "t", "--durable", "\udcff"), 2, "isn't UTF-8"),
    ],
)
def test_what_can_not_be_is_one_sentence_and_a_code(
    run: Run, words: tuple[str, ...], code: int, says: str
) -> None:
    result = run(*words)
    assert (result.returncode, result.stdout) == (code, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_a_gateway_it_says_where_there_is_none() -> None:
    port = free_port()
    result = command("queue", "list", port=port)
    assert result.returncode == 1
    assert result.stderr.startswith(
        f"distributary: no gateway answers at amqp://127.0.0.1:{port}: Connection refused"
    )


def test_every_command_has_help_with_an_example() -> None:
    for group, names in (
        (
            "subscription",
            "list show create pause resume purge rewind skip redrive close delete set",
        ),
        ("queue", "list show create delete redrive set"),
        ("topic", "list show"),
    ):
        for name in names.split():
            result = command(group, name, "--help", port=1)
            assert f"distributary {group} {name}" in result.stdout


@pytest.fixture
def secured(own_gateway: Callable[..., Gateway], tmp_path: Path) -> tuple[Gateway, Path, Path]:
    """A gateway with TLS and users of its own; its authority's file; the folder of a client's
    certificate."""
    authority = Authority(tmp_path)
    chain, key = authority.issue("server", "localhost")
    users = tmp_path / "users.toml"
    with changing(users) as known:
        known["alice"] = user_of("wonderland")
    security = {
        "users": str(users),
        "anonymous": False,
        "tls_certificate": str(chain),
        "tls_key": str(key),
        "tls_client_ca": str(authority.file),
    }
    authority.issue("robot", "robot")
    return own_gateway({"security": security}).start(), authority.file, tmp_path


def test_a_login_by_password_or_certificate_over_tls(secured: tuple[Gateway, Path, Path]) -> None:
    """The password comes from the environment; a wrong one, and none at all, are told so."""
    gateway, authority, folder = secured
    place = ("queue", "list", "--gateway", f"localhost:{gateway.port}", "--tls-ca", str(authority))
    alice = (*place, "--user", "alice")
    assert "no queues" in done(command(*alice, port=1, **{PASSWORD: "wonderland"}))
    files = ("--tls-cert", str(folder / "robot.pem"), "--tls-key", str(folder / "robot.key"))
    assert "no queues" in done(command(*place, *files, port=1))
    for words in (alice, place):
        refused = command(*words, port=1, **{PASSWORD: "x"})
        assert refused.returncode == 1
        assert refused.stderr.startswith("distributary: no gateway answers at amqps://localhost")
        assert refused.stderr.count("\n") == 1
