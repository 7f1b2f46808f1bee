"""Findings of `doctor` and `upgrade --check` in a home without a disk."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_s3 import FaultyS3, Plan
from fork_server import commands
from gateway_peer import Connect
from gateway_process import Gateway, free_port

from distributary.pipeline.tables.delta.object_store import ObjectStore

HOME = "s3://lake/home"
SETTINGS = {"owner": {"lease_ms": 4_000}, "commit": {"interval_ms": 600_000}}


Doctor = Callable[..., dict[str, list[str]]]


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    """Asks it; other programs of this machine have no part in that."""
    config = tmp_path / "doctor.toml"
    config.write_text(f"[gateway]\nlisten = '127.0.0.1:{free_port()}'\n[http]\nlisten = ''\n")
    return lambda code, home=HOME: asked(code, home, config)


def asked(code: int, home: str, config: Path) -> dict[str, list[str]]:
    """Its sentences by subject, each with its verdict."""
    done = commands().run("doctor", "--home", home, "--config", str(config), "--json")
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for one in json.loads(done.stdout):
        found.setdefault(one["subject"], []).append(f"{one['verdict']}: {one['sentence']}")
    return found


def test_a_home_and_its_owner_are_told(
    own_gateway: Callable[..., Gateway], connect: Connect, s3: FaultyS3, doctor: Doctor
) -> None:
    assert doctor(0)["home"] == [f"good: {HOME} has no log yet."]
    gateway = own_gateway(SETTINGS)
    gateway.address = HOME
    gateway.start()
    connect(port=gateway.port).sender("first").publish("one")
    said = doctor(0)
    assert said["home"][0].endswith(", which lives.")
    assert gateway.process is not None
    assert f"pid {gateway.process.pid}" in said["home"][0]
    assert said["store"] == ["good: It keeps conditions of puts (If-None-Match, If-Match)."]
    assert " for the slowest of 20" in said["puts"][0]
    formats = commands().run("upgrade", "--check", "--home", HOME, "--json")
    assert formats.returncode == 0, formats.stdout + formats.stderr
    parts = {one["part"]: one for one in json.loads(formats.stdout)["parts"]}
    assert parts["journal"]["sentence"].startswith("it has 1 groups")
    assert parts["topic_log"]["fate"] == "same"
    gateway.kill()
    assert doctor(0)["home"][0].endswith(", which gives no sign of life.")
    store = ObjectStore(HOME, s3.options())
    store.put("journal/0000000099/00000000000000000001", b"x" * 100)
    assert doctor(0)["journal"][0].startswith("good: 1 groups of former owners'")
    store.put("restoring", b"cut off")
    assert "a restore was cut off" in doctor(1)["home"][0]


def test_what_is_bad_is_told(s3: FaultyS3, doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.plan(Plan(unconditional="if-match"))
    assert doctor(1)["store"][0].startswith("bad: It ignores conditions of puts")
    s3.plan(Plan(latency_ms=150))
    assert doctor(0)["puts"][0].startswith("look: A put takes")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert "can't be used" in doctor(1)["store"][0]
