"""The Qpid JMS client's transacted session over two logs of a lake: it knows of none."""

import os
import subprocess
from itertools import count
from pathlib import Path

import pytest
from gateway_fleet import Fleet
from gateway_jms import QUEUE, Jms
from gateway_process import Gateway, Settings
from jms_suite import SOURCES, jars
from maven_jars import JAVAC, SHORT_LIFE, jdk_missing

COUNT = 5
SECONDS_MAX = 240
pytestmark = pytest.mark.timeout(600)


def test_each_message_moves_once(tmp_path: Path) -> None:
    """Each is taken twice: first its transaction is rolled back, in both logs, then committed."""
    missing = jdk_missing()
    if missing:
        assert os.environ.get("CI") != "true", missing
        pytest.skip(missing)
    path = ":".join(map(str, [tmp_path, *jars()]))
    source = SOURCES.parent / "logs" / "TwoLogs.java"
    compiler = [*JAVAC, "-Xlint:all", "-Werror", "-cp", path, "-d", str(tmp_path), str(source)]
    subprocess.run(compiler, check=True)
    numbers = count()

    def make(settings: Settings | None) -> Gateway:
        return Gateway(tmp_path / f"gateway-{next(numbers)}", settings)

    with Fleet(tmp_path, make) as fleet:
        with Jms(fleet.orders.port) as there:
            there.publish("orders.from", *map(str, range(COUNT)), capabilities=QUEUE)
        url = f"amqp://127.0.0.1:{fleet.main.port}"
        words = ["logs.TwoLogs", url, "orders.from", "own.to", str(COUNT)]
        done = subprocess.run(
            ["java", *SHORT_LIFE, "-cp", path, *words],
            capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.split() == [str(nth) for nth in range(COUNT)]
