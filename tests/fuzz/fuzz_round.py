"""A round: one gateway, conversations drawn by a seed, a witness beside them, and what is judged.

It fails when the process ends, a sanitizer reports, the witness isn't answered in time, the log
says that there is a bug of the gateway's own or has a traceback, a socket isn't served or ended,
the gateway doesn't stop cleanly, or its home isn't sound at the end.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import gateway_process
from fuzz_cells import Cell
from fuzz_logins import PASSWORD, USER, users_file
from fuzz_model import Speaker
from fuzz_play import Stuck, play
from fuzz_recorded import recorded
from fuzz_transcript import Act, Drop, Hear, Say
from gateway_process import Gateway, until

#: Seconds that the witness's message may take: a sanitizer's build on a busy machine is slow.
WITNESS_SECONDS = 10.0
#: Seconds that the start may take.
START_SECONDS = 120.0
#: What must not stand in a gateway's log.
BAD = re.compile(
    r".*(AddressSanitizer|runtime error:|gateway\.bug|Traceback \(|internal-error|Fatal Python).*"
)
#: Small, so that limits are met; `few|global` has an own policy's place in the conversations.
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "amqp": {
        "links_max": 40,
        "unsettled_max": 500,
        "temporary_max": 6,
        "transactions_max": 3,
        "transaction_bytes_max": 20_000,
        "message_bytes_max": 100_000,
        "unfinished_bytes_max": 200_000,
        "producer_credit": 60,
    },
    "delivery": {"cache_bytes": 1 << 20, "page_bytes": 1 << 16, "duplicates_max": 1_000},
    "topic": {"duplicates_messages": 100},
    "journal": {"segment_bytes": 16 << 20},
    "subscription": {
        "backlog_messages_max": 400,
        "backlog_overflow": "drop_oldest",
        "redelivery_delay_ms": 1,
    },
}
#: How often what comes is awaited behind a frame: a peer that sends before a session or its credit
#: is there is wrong at once, and would not get far.
AWAITED = {0x41: 0.9, 0x44: 0.8, 0x11: 0.95, 0x12: 0.8, 0x13: 0.2}
WITNESS = Path(__file__).with_name("fuzz_witness.py")
CLIENTS = Path(gateway_process.__file__).parent


class Finding(Exception):
    """A fault in words. `kind` is the word by which it is known again."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind or text.split(":", maxsplit=1)[0]


@dataclass
class Place:
    """The place of rounds: a folder, the environment of the gateways (a sanitizer's, or none of its
    own), and whether peers must log in."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    users: bool = False


class Tried(Gateway):
    """A gateway that conversations are tried on."""

    LOGGING = ("--json",)

    def __init__(self, place: Place, *, witnessed: bool = True) -> None:
        shutil.rmtree(place.folder, ignore_errors=True)
        place.folder.mkdir(parents=True)
        self._login = (USER, PASSWORD) if place.users else ()
        security = {"users": str(users_file(place.folder)), "anonymous": False}
        super().__init__(place.folder, SETTINGS | ({"security": security} if place.users else {}))
        self.environment = dict(place.environment)
        self._checked = 0
        self._witnessed = witnessed
        self.witness: subprocess.Popen[str] | None = None
        self.said = ""

    def __enter__(self) -> Self:
        process = self.spawn()
        ready = lambda: self.events("listening") or process.poll() is not None  # noqa: E731
        until(ready, "the gateway listens", START_SECONDS)
        if self._witnessed:
            self._call_witness()
        return self

    def _call_witness(self) -> None:
        command = [sys.executable, str(WITNESS), str(self.port), str(WITNESS_SECONDS), *self._login]
        pipe = subprocess.PIPE
        self.witness = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            env={**os.environ, "PYTHONPATH": str(CLIENTS)},
        )
        assert self.witness.stdout is not None
        if self.witness.stdout.readline() != "ready\n":
            complaint = self.witness.communicate()[1][-800:]
            raise Finding(f"the witness isn't served: {complaint}\n{self.log[-3_000:]}")

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self.witness is not None:
            self.witness.kill()
            self.witness.communicate()
        if self.process is not None:
            self.kill()

    def converse(self, acts: list[Act]) -> None:
        """Play them, and judge. Raises Finding."""
        try:
            play(self.port, acts)
        except (Stuck, OSError) as error:
            self.judge()
            raise Finding(f"a peer was left alone: {error!r}") from None
        self.judge()

    def judge(self) -> None:
        """The process runs, its log is clean, the witness is content. Raises Finding."""
        assert self.process is not None
        with self.log_path.open("rb") as file:
            file.seek(self._checked)
            fresh = file.read()
        self._checked += len(fresh)
        if found := BAD.search(fresh.decode(errors="replace")):
            if not self.running or "AddressSanitizer" in found[0]:
                self._ended()
            raise Finding(self._words(found[0]), found[1])
        if not self.running:
            raise Finding(f"the process ended with code {self.process.poll()}: {self.log[-500:]}")
        if self.witness is not None and self.witness.poll() is not None:
            said, complaint = self.witness.communicate()
            raise Finding(f"the witness: {(said + complaint)[-500:]}")

    def _ended(self) -> None:
        """A process that reports is about to end; the report is whole then."""
        process = self.process
        assert process is not None
        until(lambda: process.poll() is not None, "a process with a report ends")

    def _words(self, line: str) -> str:
        """A finding's line, with the frames of a sanitizer's report that are ours or Proton's."""
        text = self.log
        at = text.rfind(line)
        frames = re.findall(r"#\d+ 0x\w+ in (\w+)", text[at : at + 6_000])
        return f"{line[:3_000]}" + (f" in {', '.join(frames[:12])}" if frames else "")

    def end(self) -> None:
        """The witness has had all its answers, the gateway stops cleanly, its home is sound. Raises
        Finding."""
        self.judge()
        if self.witness is not None:
            self.said, complaint = self.witness.communicate("", timeout=60)
            if self.witness.returncode:
                raise Finding(f"the witness: {self.said}{complaint}")
        try:
            self.stop()
            self.verified()
        except (AssertionError, subprocess.TimeoutExpired) as error:
            raise Finding(f"its end isn't clean: {str(error)[-3_000:]}") from None
        if found := BAD.search(self.log):
            raise Finding(self._words(found[0]))


# What is said.


def conversation(dice: random.Random, cells: Counter[Cell], *, users: bool = False) -> list[Act]:
    """Several connections at once, each by its own model or by a recording, interleaved. `users`:
    they must log in."""
    queues = [_one(number, dice, cells, users) for number in range(dice.choice([1, 2, 3, 4]))]
    acts: list[Act] = []
    while queues:
        at = dice.randrange(len(queues))
        count = dice.randint(1, 25)
        acts += queues[at][:count]
        del queues[at][:count]
        if not queues[at]:
            queues.pop(at)
    return acts


def _one(number: int, dice: random.Random, cells: Counter[Cell], users: bool) -> list[Act]:
    if dice.random() < 0.12:
        frames = recorded(dice)
    else:
        container = f"fuzz-{dice.randrange(4)}"
        frames = Speaker(dice, container, cells, users=users).frames(dice.choice([20, 60, 150]))
    acts: list[Act] = []
    for frame in frames:
        if dice.random() < 0.01 and len(frame) > 1:
            cut = dice.randrange(1, len(frame))
            acts += [Say(number, frame[:cut]), Hear(number), Say(number, frame[cut:])]
        else:
            acts.append(Say(number, frame))
        if dice.random() < AWAITED.get(frame[10] if len(frame) > 10 else 0, 0.05):
            acts.append(Hear(number))
    if dice.random() < 0.1:
        acts.append(Drop(number))
    return acts


def frames_of(acts: list[Act]) -> int:
    return sum(isinstance(act, Say) for act in acts)
