"""The command `distributary` without its imports, which are half a second of each process.

A fork server is a process with the command's imports done. Each of its forks gets arguments,
variables, a folder and files of its own, and runs the command's `main` to its end, as the installed
script does. The tests wait for forks and end them as if they had started them. They get exit codes
from the server, or, when it has ended, by themselves (its forks become theirs then). A fork costs a
hundredth of a second of a processor: there is one for each command.

A test with a library, a tracer or a limit in front of the command starts the installed script.
"""

import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import cache, partial
from pathlib import Path
from typing import IO

from distributary.ingest.cli import main

_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNET = 0x40000000
_REQUEST_BYTES_MAX = 1 << 17
#: The installed script.
SCRIPT = str(Path(sys.executable).with_name("distributary"))
#: What a gateway imports at its start, and, with Arrow, when its first link comes: two tenths of a
#: second of a processor each time. The last two are imported by Arrow, once it makes anything.
GATEWAY = (
    "distributary.ingest.gateway.serve",
    "distributary.ingest.cli.serve_command",
    "distributary.pipeline.tables.topic_log.table_work",
    "distributary.ingest.runtime.load_settings",
    "importlib.readers",
    "dateutil.relativedelta",
    "numpy.ma",
)
#: What the other commands import, with those of Spark's jobs.
COMMANDS = (
    *sorted({f"distributary.ingest.cli.{module}" for module in main.COMMANDS.values()}),
    "distributary.ingest.backup.backup_run",
    "distributary.ingest.backup.restore_run",
    "distributary.ingest.cli.inspection.inspect_show",
    "distributary.ingest.cli.messages.message_lines",
    "distributary.ingest.cli.messages.message_traffic",
    "distributary.ingest.commit.table_location",
    "distributary.ingest.console.console_server",
    "distributary.ingest.console.settings.console_settings",
    "distributary.pipeline.tables.verify.verify_home",
    "distributary.jobs.client.management_client",
    "distributary.jobs.session.session",
    "distributary.jobs.views.notebook_views",
    "distributary.jobs.views.rewind_preview",
    *GATEWAY,
)


class Forked:
    """A process, with what `subprocess.Popen` has to wait for it and to end it. `code_of` says how
    a fork has ended, and lets its number go."""

    def __init__(self, pid: int, code_of: Callable[[int], int]) -> None:
        self.pid, self._code_of = pid, code_of
        self.returncode: int | None = None
        self._ended = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, a signal as a negative number; None while it runs."""
        with self._lock:
            if self.returncode is None and _readable(self._ended, 0):
                self.returncode = self._code_of(self.pid)
                os.close(self._ended)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has come. Raises subprocess.TimeoutExpired."""
        while (code := self.poll()) is None:
            if not _readable(self._ended, timeout):
                raise subprocess.TimeoutExpired(SCRIPT, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, or nothing if the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _readable(descriptor: int, seconds: float | None) -> bool:
    """By `poll`: `select` knows only the first 1,024 descriptors of a process."""
    asked = select.poll()
    asked.register(descriptor, select.POLLIN)
    return bool(asked.poll(None if seconds is None else seconds * 1_000))


class ForkServer:
    """Forks of a process that has imported these modules; `before` is called in it first. Of a
    library that is `preloaded` each fork calls `begin`, when it has its variables. With a `program`
    they run that module of the checkout, as `python -m` does, in place of the command."""

    def __init__(
        self,
        modules: tuple[str, ...],
        before: Callable[[], None] | None = None,
        preloaded: Path | None = None,
        program: str = "",
    ) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._lock = threading.Lock()
        self._preloaded = preloaded
        self._program = program
        checkout = {"PYTHONPATH": str(Path(__file__).parents[2])} if program else {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                # -P: this file's folder has no place in the path of a command.
                [sys.executable, "-P", __file__, str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=clean_environment()
                | ({"LD_PRELOAD": str(preloaded)} if preloaded else {})
                | checkout,
                preexec_fn=before,  # noqa: PLW1509 (no threads wait for it)
            )

    def start(
        self,
        *words: object,
        output: IO[bytes],
        errors: IO[bytes],
        given: IO[bytes] | None = None,
        environment: Mapping[str, str] | None = None,
        namespace: str = "",
    ) -> Forked:
        """`distributary` with these words. It writes into `output` and `errors`, and reads what is
        `given`, nothing by default. `namespace`: the file of its network, if not ours."""
        request = {
            "argv": [SCRIPT, *map(str, words)],
            "env": clean_environment() if environment is None else dict(environment),
            "cwd": str(Path.cwd()),
            "preloaded": str(self._preloaded or ""),
            "program": self._program,
            "namespace": namespace,
        }
        with ExitStack() as opened:
            stdin = given or opened.enter_context(Path(os.devnull).open("rb"))
            files = [one.fileno() for one in (stdin, output, errors)]
            said = self._asked(request, files)
        assert said, "the fork server has ended"
        return Forked(int(said), self._code_of)

    def _asked(self, request: Mapping[str, object], files: list[int]) -> bytes:
        """The answer; none when the server has ended."""
        with self._lock, suppress(OSError):
            socket.send_fds(self._socket, [json.dumps(request).encode()], files)
            return self._socket.recv(64)
        return b""

    def _code_of(self, pid: int) -> int:
        said = self._asked({"ended": pid}, [])
        return int(said) if said else os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def run(
        self,
        *words: object,
        environment: Mapping[str, str] | None = None,
        given: str = "",
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` does it with `capture_output`, `text` and `input`."""
        with ExitStack() as opened:
            stdin, *files = [opened.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            stdin.write(given.encode())
            stdin.seek(0)
            output, errors = files
            process = self.start(
                *words, output=output, errors=errors, given=stdin, environment=environment
            )
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            said = []
            for file in files:
                file.seek(0)
                said.append(file.read().decode())
        return subprocess.CompletedProcess([SCRIPT, *map(str, words)], code, *said)

    def close(self) -> None:
        """End the server; forks that run still go on."""
        self._socket.close()
        self._process.wait()


def clean_environment() -> dict[str, str]:
    """The tests' own, without what would set a gateway."""
    return {name: v for name, v in os.environ.items() if "DISTRIBUTARY" not in name}


@cache
def gateways(preloaded: Path | None = None) -> ForkServer:
    """The one of this process that makes gateways, with a library under them or without."""
    return ForkServer(GATEWAY, preloaded=preloaded)


@cache
def commands(preloaded: Path | None = None) -> ForkServer:
    """The one of this process that makes all other commands, as `gateways`."""
    return ForkServer(COMMANDS, preloaded=preloaded)


def _serve(requests: socket.socket) -> str:
    """Fork for each request, and report exit codes of forks, until the requests end. Returns in the
    forks alone, with the program that is to be run."""
    while True:
        message, files, _, _ = socket.recv_fds(requests, _REQUEST_BYTES_MAX, 3)
        if not message:
            os._exit(0)
        request = json.loads(message)
        if "ended" in request:
            said = os.waitstatus_to_exitcode(os.waitpid(request["ended"], 0)[1])
        elif (said := os.fork()) == 0:
            _become(request, files)
            return str(request["program"])
        requests.send(b"%d" % said)
        for file in files:
            os.close(file)


def _become(request: dict, files: list[int]) -> None:
    """Take on what the request says; keep nothing of the server's."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 1024)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[:] = request["argv"]
    if request["namespace"]:
        with Path(request["namespace"]).open() as file:
            assert ctypes.CDLL(None).setns(file.fileno(), _CLONE_NEWNET) == 0
    if request["preloaded"]:
        ctypes.CDLL(request["preloaded"]).begin()


def _end(main: Callable[[], object]) -> None:
    """Run to the exit code, as Python does, but take nothing apart: that would be pages, too."""
    code: object = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 (whatever it is, it is told)
        traceback.print_exc()
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    for file in (sys.stdout, sys.stderr):
        file.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    modules = sys.argv[2:]
    main = importlib.import_module("distributary.ingest.cli.main").main
    if tuple(modules) == GATEWAY:
        # As `serve` does it: allocators are set before the libraries that use them come.
        importlib.import_module("distributary.ingest.runtime.memory").set_up()
    for module in modules:
        importlib.import_module(module)
    # What is read, looked up or compiled once in a process is there for all of its forks.
    if (settings := sys.modules.get("distributary.ingest.runtime.load_settings")) is not None:
        settings.load()
    if (templates := sys.modules.get("distributary.ingest.console.web.templates")) is not None:
        templates.Templates(templates.StaticAssets())
    # Ctrl-C is for the tests and the forks; the server ends with the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # All objects of now stay: a fork whose collector looked at them would copy their pages.
    gc.collect()
    gc.freeze()
    program = _serve(requests)
    requests.detach()
    run = partial(runpy.run_module, program, run_name="__main__", alter_sys=True)
    _end(run if program else main)


if __name__ == "__main__":
    _main()
