"""The short round of a fleet: its gateways are killed, paused, and cut off from the store."""

import os
import random
import subprocess
import sys
from pathlib import Path

import fleet_rounds
import namespaces
import pytest
from fleet_harms import Harm
from fleet_world import LOG_OF, LOGS
from history import Delivered, History, Publish, Published, Said, Settle, Settled
from namespaces import allowed
from progress import Progress

#: Of them each is done without namespaces.
SHORT = {"an owner": (Harm.KILLED, Harm.HALTED), "its home": (Harm.CUT_OFF, Harm.PAUSED)}


@pytest.mark.parametrize("kind", SHORT)
def test_a_fleet_goes_on_when_it_loses(tmp_path: Path, crash_seed: int, kind: str) -> None:
    """Nothing that was accepted is lost, nothing confirmed comes again, and there is order,
    for clients at any gateway."""
    draw = random.Random(f"{crash_seed}/{kind}")
    report, backs = fleet_rounds.run(tmp_path / "round", draw, SHORT[kind])
    assert report.acknowledged
    assert [back.harm for back in backs] == list(SHORT[kind])


def test_a_log_goes_on_when_new_messages_pass_through_it() -> None:
    """Messages sent or settled before prove nothing about the time after."""
    history = History()
    history.add(Publish("rain/p/0", "rain", "p", 0, kept=True))
    progress = Progress(history, LOG_OF)
    after = (
        Published("rain/p/0"),
        Settled("s", "rain/p/0", "c", Said.ACCEPTED),
        Publish("rain/p/1", "rain", "p", 1, kept=True),
        Published("rain/p/1"),
        Publish("rain/p/2", "rain", "p", 2, kept=False),
        Settle("s", "rain/p/2", "c", Said.ACCEPTED),
        Settled("s", "rain/p/2", "c", Said.ACCEPTED),
        Delivered("s", "rain/p/0", "c", 0),
        Settle("s", "rain/p/0", "c", Said.ACCEPTED),
    )
    for event in after:
        history.add(event)
        assert not progress.of_all(LOGS[:1])
    history.add(Settled("s", "rain/p/0", "c", Said.ACCEPTED))
    assert progress.of_all(LOGS[:1])
    assert not progress.of_all(LOGS)


#: In a process of its own, which leaves the machine's network.
PARTED = """
import socket, subprocess
from namespaces import Network

def heard(network, host, other):
    code = f"import socket; socket.create_connection(('{other.address}', 9000), 1)"
    return subprocess.run(
        [*host.inside, sys.executable, "-c", code], stderr=subprocess.DEVNULL
    ).returncode == 0

import sys
with Network() as network:
    one, other = network.host(), network.host()
    server = subprocess.Popen(
        [*other.inside, sys.executable, "-c", "import socket, time\\n"
         "server = socket.create_server(('', 9000)); print(flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    server.stdout.readline()
    found = [heard(network, one, other)]
    network.part(one, other)
    found.append(heard(network, one, other))
    network.part(one, other, parted=False)
    network.cut(other)
    found.append(heard(network, one, other))
    network.join(other)
    found.append(heard(network, one, other))
    server.kill()
print(found)
"""


def test_hosts_of_namespaces_are_parted_and_joined() -> None:
    """And the machine's own network is as it was."""
    if not allowed():
        pytest.skip("network namespaces need root")
    links = sorted(Path("/sys/class/net").iterdir())
    done = subprocess.run(
        [sys.executable, "-c", PARTED],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(namespaces.__file__).parent)},
    )
    assert done.stdout == "[True, False, False, True]\n"
    assert sorted(Path("/sys/class/net").iterdir()) == links
