"""The fleet: three gateways, three logs; the owner of the flights' log is killed half way."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_lender import lent

FLIGHTS = 8_000


@pytest.mark.timeout(600)  # eleven processes, and Spark, unless others want the same cores
def test_all_numbers_agree_although_the_owner_was_killed(tmp_path: Path) -> None:
    home = tmp_path / "fleet"
    words = ["-m", "examples.fleet", "--home", str(home), "--flights", str(FLIGHTS), "--json"]
    command, environment = lent([sys.executable, *words], os.environ)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["published"] == said["settled"] == said["messages"] == FLIGHTS
    assert f"{FLIGHTS:,} published = {FLIGHTS:,} settled by dispatchers" in done.stderr
    assert "took flights over" in done.stderr
    standby = (home / "standby.log").read_text()
    assert "standby.took_over" in standby
    for gateway in home.glob("gateway-*.log"):
        assert "gateway.bug" not in gateway.read_text()
