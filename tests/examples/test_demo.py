"""The demo, small but whole: real processes, a real gateway, Spark; and the parts that can fail.

Goal: what a newcomer types first works, says so by itself, and would say so if it didn't.
Method: the command as a person types it, once for the module; its pure parts alone.
"""

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from proton import Message, int32

from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import lock
from examples.demo.demo import MARK, off
from examples.demo.demo_report import Cursor, Numbers, Worker
from examples.demo.flights import Encoder, rows
from examples.demo.play import Played

COMMAND = (sys.executable, "-m", "examples.demo")
FLIGHTS = 3_000
#: Seconds for the whole of it, on a machine that does other things too.
SECONDS_MAX = 240


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "home"


@pytest.fixture(scope="module")
def stayed(home):
    """The demo's output with --json, and a page of its console while it stays open."""
    demo = subprocess.Popen(
        [*COMMAND, "--home", home, "--flights", str(FLIGHTS), "--json", "--stay"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with demo:
        ending = threading.Timer(SECONDS_MAX, demo.kill)
        ending.start()
        said = []
        while not (found := re.search(r"The console: (\S+) +\(Ctrl-C", said[-1] if said else "")):
            said.append(demo.stderr.readline())
            assert said[-1], "".join(said)
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        page = opener.open(f"{found[1]}/subscription?id=global/auditors").read().decode()
        demo.send_signal(signal.SIGINT)
        told, _ = demo.communicate()
        ending.cancel()
    assert demo.returncode == 130
    return json.loads(told), page


@pytest.fixture(scope="module")
def numbers(stayed):
    return stayed[0]


@pytest.mark.spark
def test_it_can_stay_open(stayed):
    """Its console shows the flights that the auditors are owed."""
    assert f"{FLIGHTS:,}" in stayed[1]
    assert "No consumer is attached" in stayed[1]


def test_all_numbers_agree(numbers):
    """Each flight is published, settled by one worker, owed to the auditors, and a row."""
    assert numbers["published"] == FLIGHTS
    assert numbers["settled"] == FLIGHTS
    assert numbers["messages"] == FLIGHTS
    assert numbers["pending"] == {"global/auditors": FLIGHTS, "global/dispatchers": 0}


@pytest.mark.spark
def test_what_the_killed_worker_held_goes_to_the_others(numbers):
    """worker-2 was lost with what it held, and the three others accepted just that many of it."""
    workers = {worker["name"]: worker for worker in numbers["workers"]}
    assert sorted(workers) == ["worker-1", "worker-2", "worker-3", "worker-4"]
    held = workers.pop("worker-2")
    assert held["lost"] == numbers["held_by_the_killed"] > 0
    assert held["took_over"] == 0
    assert sum(worker["took_over"] for worker in workers.values()) == held["lost"]
    assert not any(worker["lost"] for worker in workers.values())


@pytest.mark.spark
def test_carriers_come_from_typed_properties(numbers):
    """The table says of the first flights what the file says."""
    flights = list(islice(rows(), FLIGHTS))
    first = numbers["carriers"][0]
    mine = [flight for flight in flights if flight["carrier"] == first["name"]]
    assert first["flights"] == len(mine)
    assert first["miles"] == sum(int(flight["distance"]) for flight in mine)
    assert first["unflown"] == sum(flight["dep_delay"] == "NA" for flight in mine)


@pytest.mark.spark
def test_the_picture_is_there_and_the_home_is_free(numbers, home):
    """A PNG lies in the home, and no gateway holds the home's lock any more."""
    assert (home / "deliveries.png").read_bytes().startswith(b"\x89PNG")
    with lock(Home(home)):
        pass


@pytest.mark.spark
def test_interrupted_it_ends_all_that_it_started(tmp_path):
    """Ctrl-C while the flights fly: a sentence, exit code 130, and nothing left running."""
    home = tmp_path / "home"
    demo = subprocess.Popen(
        [*COMMAND, "--home", home], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with demo:
        port = re.search(r"127\.0\.0\.1:(\d+)", demo.stdout.readline())[1]
        deadline = time.monotonic() + 60
        while not any("publisher" in line for line in clients_of(port)):
            assert time.monotonic() < deadline
        demo.send_signal(signal.SIGINT)
        rest, _ = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "Stopped" in rest
    with lock(Home(home)):
        pass
    assert not list(clients_of(port))


def clients_of(port):
    """The command lines of the demo's processes that talk to this port."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if "examples.demo" in line and f" {port} " in line:
                yield line


def test_a_home_of_somebody_else_is_left_alone(tmp_path):
    """A folder that the demo did not make is refused in a sentence, and keeps what it has."""
    (tmp_path / "precious").write_text("x")
    done = subprocess.run(
        [*COMMAND, "--home", tmp_path], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "did not make" in done.stderr
    assert "Traceback" not in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["precious"]
    assert not (tmp_path / MARK).exists()


def test_a_flight_is_a_message_that_proton_reads():
    """Proton decodes what the encoder joins: durable, with an id, a subject and typed values."""
    message = Message()
    message.decode(Encoder().message(7, next(rows())))
    assert (message.durable, message.id, message.subject) == (True, "flight-7", "departure")
    assert message.body == "UA 1545 EWR-IAH"
    properties = message.properties
    assert properties["carrier"] == "UA"
    assert properties["flight"] == "1545"
    assert (type(properties["distance"]), properties["distance"]) == (int32, 1400)
    assert len(properties) == 19


def test_a_missing_value_is_a_missing_property():
    """A flight that never left has no departure delay, rather than an empty or a null one."""
    unflown = next(row for row in rows() if row["dep_delay"] == "NA")
    message = Message()
    message.decode(Encoder().message(0, unflown))
    assert "dep_delay" not in message.properties
    assert None not in message.properties.values()
    assert set(message.properties) == {name for name, value in unflown.items() if value != "NA"}


PLAYED = Played(published=10, settled={"worker-1": 8, "worker-2": 2}, held=3)
GOOD = Numbers(
    messages=10,
    undecodable=0,
    settled=10,
    workers=(Worker("worker-1", 8, 0, 3), Worker("worker-2", 2, 3, 0)),
    cursors=(
        Cursor("global/auditors", 0, 0, 0, 0, 10, 4),
        Cursor("global/dispatchers", 10, 0, 10, 3, 0, 4),
    ),
    carriers=(),
)


def test_numbers_that_agree_are_not_off():
    """The check has nothing against a demo in which nothing was lost."""
    assert off(10, PLAYED, GOOD) == ""


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"settled": 9}, "settled by dispatchers is 9"),
        ({"messages": 11}, "rows of messages is 11"),
        ({"undecodable": 1}, "could not be decoded is 1"),
        ({"cursors": GOOD.cursors[1:]}, "pending for auditors is -1"),
        ({"workers": (replace(GOOD.workers[0], accepted=9), GOOD.workers[1])}, "acks is 11"),
        ({"workers": (GOOD.workers[0], replace(GOOD.workers[1], lost=2))}, "worker is 2"),
    ],
)
def test_the_check_names_the_number_that_is_off(change, says):
    """Whichever number is wrong, the sentence names it."""
    assert says in off(10, PLAYED, replace(GOOD, **change))


def test_the_check_wants_a_worker_to_have_died():
    """A demo whose killed worker held nothing has shown nothing."""
    workers = (GOOD.workers[0], replace(GOOD.workers[1], lost=0))
    found = off(10, replace(PLAYED, held=0), replace(GOOD, workers=workers))
    assert "held nothing" in found
