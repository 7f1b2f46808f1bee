"""The file layer under a gateway: built once, armed while the gateway runs, asked what it did.

What the layer sees, and how strict it is, stands in `faults.c`.
"""

import hashlib
import mmap
import os
import random
import shutil
import struct
import subprocess
import tempfile
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import power
from gateway_process import Gateway

SOURCE = Path(__file__).with_name("faults.c")
#: `struct control`: three counters, then the plan as text.
CONTROL_BYTES = 4096
_PLAN_AT = 24
_GENERATION_AT, _FIRED_AT = 0, 8
#: Every call that changes something.
ANY_CALL = "create|write|fsync|fdatasync|rename|link|unlink|truncate|allocate|mkdir|rmdir"


@dataclass(frozen=True, slots=True)
class Where:
    """A moment in a process: just before or after a call on a file below the home.

    `calls` are names joined by '|', `files` a glob. With `since`, matches count only after a call
    of that kind on such a file.
    """

    calls: str
    files: str
    when: str
    since: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at the `nth` call, and at `times` calls in a row (0: at all that follow).

    `action` is kill, pause, errno (with `error` EIO or ENOSPC) or short, which tears a write.
    """

    where: Where
    action: str
    nth: int = 1
    times: int = 1
    error: str = "EIO"

    @property
    def plan(self) -> str:
        since = "since {} {}\n".format(*self.where.since) if self.where.since else ""
        words = (self.where.calls, self.where.files, self.where.when, self.nth, self.times)
        return f"{since}{' '.join(map(str, words))} {self.action} {self.error}\n"


@dataclass(frozen=True, slots=True)
class Call:
    """One call that the layer has seen, in the order in which they returned."""

    thread: int
    name: str
    path: str
    result: int
    error: int


@cache
def library() -> Path:
    """The compiled layer; made once for each state of its source, by the first process."""
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    made = Path(tempfile.gettempdir()) / f"distributary-faults-{os.getuid()}-{digest}.so"
    if not made.exists():
        own = made.with_suffix(f".{os.getpid()}")
        command = ["cc", "-shared", "-fPIC", "-O2", "-o", own, SOURCE, "-ldl", "-lpthread"]
        subprocess.run(command, check=True)
        own.replace(made)
    return made


class Layer:
    """The layer of one home. `folder` is its own; `shadow`: remember what a power cut leaves.

    It is under the process that is started with it, or, with `program`, under those that run it.
    """

    def __init__(
        self, folder: Path, home: Path, *, shadow: bool = False, program: str | None = None
    ) -> None:
        self.folder, self.home, self.shadow = folder, home, shadow
        self.program = program
        folder.mkdir(parents=True)
        home.mkdir(parents=True, exist_ok=True)
        self._calls = folder / "calls"
        self._calls.touch()
        (folder / "control").write_bytes(bytes(CONTROL_BYTES))
        with (folder / "control").open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), CONTROL_BYTES)
        self.boot_id = str(uuid.uuid4())
        self._new_shadow()

    @property
    def boot_id(self) -> str:
        """The kernel's id of this boot."""
        return (self.folder / "boot_id").read_text().strip()

    @boot_id.setter
    def boot_id(self, value: str) -> None:
        (self.folder / "boot_id").write_text(f"{value}\n")

    @property
    def environment(self) -> dict[str, str]:
        """The environment with which a process must be started."""
        return {
            "LD_PRELOAD": str(library()),
            "FAULTS_HOME": str(self.home.resolve()),
            "FAULTS_DIR": str(self.folder.resolve()),
            **({} if self.program is None else {"FAULTS_PROGRAM": self.program}),
        }

    @property
    def command(self) -> tuple[str, ...]:
        """The words that set this environment in front of a command line."""
        return ("env", *(f"{name}={value}" for name, value in self.environment.items()))

    def put_under(self, gateway: Gateway, inside: tuple[str, ...] = ()) -> None:
        """The gateway's next processes run over this layer; `inside` what comes in front."""
        if inside:
            gateway.COMMAND = (*inside, *self.command, *Gateway.COMMAND)
        else:
            gateway.environment, gateway.preloaded = self.environment, library()

    def arm(self, fault: Fault | None) -> None:
        """From now on this plan holds and counts from one; None is no plan."""
        text = fault.plan.encode() if fault is not None else b""
        self._control[_PLAN_AT:] = text.ljust(CONTROL_BYTES - _PLAN_AT, b"\0")
        generation = self._word(_GENERATION_AT) + 1
        self._control[_GENERATION_AT : _GENERATION_AT + 8] = struct.pack("<Q", generation)

    @property
    def fired(self) -> int:
        """How often a plan has acted, in all lives."""
        return self._word(_FIRED_AT)

    def _word(self, at: int) -> int:
        return int(struct.unpack_from("<Q", self._control, at)[0])

    def calls(self, path: str = "") -> list[Call]:
        """The calls since the start or the last `forget_calls`, on paths with this text."""
        found = []
        for line in self._calls.read_text(errors="replace").splitlines():
            thread, name, *words, result, error = line.split(" ")
            call = Call(int(thread), name, " ".join(words), int(result), int(error))
            if path in call.path:
                found.append(call)
        return found

    def forget_calls(self) -> None:
        os.truncate(self._calls, 0)

    def power_cut(self, draw: random.Random | None = None) -> None:
        """The process is gone. Put into the home what is on the disk now: what was synced, and
        with `draw` a random part of what wasn't. The machine starts anew: another boot id."""
        power.rebuild(self.home, self.folder / "shadow", draw)
        self.boot_id = str(uuid.uuid4())
        self._new_shadow()

    def _new_shadow(self) -> None:
        if self.shadow:
            shutil.rmtree(self.folder / "shadow", ignore_errors=True)
            for name in ("inodes", "dirs"):
                (self.folder / "shadow" / name).mkdir(parents=True)
