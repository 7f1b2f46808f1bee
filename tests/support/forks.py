"""`pytest --forks 4`: tests in so many processes, all tests of a file in one of them.

To import all tests takes twenty seconds of a processor. It is done once: what runs them is forked
afterwards. Files go out in the order in which they stand, one at a time to whoever has done its
last one. A fork that dies has failed the test that it was in; another one does what it had left.
"""

import gc
import os
import signal
from collections import deque
from dataclasses import dataclass, field
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

import pytest

#: What a fork asks: give me one more file. All else that it says is a test's number, which begins,
#: a report, or the text of a failure of pytest itself.
_MORE = "more"


@dataclass
class _Fork:
    """What runs tests, as its parent sees it."""

    pid: int
    said: Connection
    left: deque[int] = field(default_factory=deque)  #: tests that it hasn't begun, by their numbers
    current: int | None = None


class _Teller:
    """What a fork has for a plugin that writes to a terminal."""

    def __init__(self, config: pytest.Config, parent: Connection) -> None:
        self._config, self._parent = config, parent

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._parent.send(told)

    def pytest_internalerror(self, excrepr: object) -> None:
        self._parent.send(str(excrepr))


class Forks:
    """The plugin; `count` processes run tests."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._made = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """In the parent: until all is done. In a fork: its share; what follows is pytest's."""
        if session.config.option.collectonly or session.testsfailed:
            return None
        session.config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
        gc.collect()
        gc.freeze()  # a fork that looked for garbage among it would copy its pages
        numbers = range(len(session.items))
        files = groupby(numbers, lambda number: session.items[number].path)
        waiting = deque(deque(numbers) for _, numbers in files)
        forks: dict[Connection, _Fork] = {}
        while waiting or forks:
            while waiting and len(forks) < self._count:
                fork = self._fork(session)
                if fork is None:
                    return True
                forks[fork.said] = fork
            for said in wait([*forks]):
                assert isinstance(said, Connection)
                if not _heard(session, forks[said], waiting):
                    _ended(session, forks.pop(said), waiting)
            if session.shouldfail:
                _interrupted([*forks.values()])
                raise session.Failed(session.shouldfail)
        return True

    def _fork(self, session: pytest.Session) -> _Fork | None:
        """One more process; None in it, when it has done all that there was."""
        ours, theirs = Pipe()
        self._made += 1
        pid = os.fork()
        if pid:
            theirs.close()
            return _Fork(pid, ours)
        ours.close()
        _become(session.config, self._made, theirs)
        _work(session, theirs)
        return None


def _become(config: pytest.Config, number: int, parent: Connection) -> None:
    """Be one that runs tests: with folders and captured output of its own, and silent."""
    plugins = config.pluginmanager
    config.workerinput = {"number": number}  # type: ignore[attr-defined] # pytest's sign for it
    plugins.getplugin("terminalreporter")._tw._file = Path(os.devnull).open("w")  # noqa: SIM115
    plugins.getplugin("capturemanager").start_global_capturing()
    plugins.register(_Teller(config, parent))
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / f"fork-{number}"
    factory._basetemp.mkdir(mode=0o700)


def _work(session: pytest.Session, parent: Connection) -> None:
    """Run tests as long as there are more. What is shared by the tests of a file ends with it: the
    next file is asked for before the last test of one."""
    mine: deque[int] = deque()

    def more() -> bool:
        if not mine:
            parent.send(_MORE)
            mine.extend(parent.recv())
        return bool(mine)

    while more():
        number = mine.popleft()
        parent.send(number)
        after = session.items[mine[0]] if more() else None
        session.config.hook.pytest_runtest_protocol(item=session.items[number], nextitem=after)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)


def _heard(session: pytest.Session, fork: _Fork, waiting: deque[deque[int]]) -> bool:
    """One thing that it said; False: it has ended."""
    try:
        told = fork.said.recv()
    except (EOFError, ConnectionResetError):
        return False
    hook, config = session.config.hook, session.config
    if told == _MORE:
        fork.left = waiting.popleft() if waiting else deque()
        fork.said.send(fork.left)
    elif isinstance(told, int):
        fork.current = fork.left.popleft()
        assert fork.current == told
    elif isinstance(told, str):
        _failed(session, fork, told)
    else:
        report = hook.pytest_report_from_serializable(config=config, data=told)
        hook.pytest_runtest_logreport(report=report)
    return True


def _ended(session: pytest.Session, fork: _Fork, waiting: deque[deque[int]]) -> None:
    """Its end, at the end of all or amid a test."""
    code = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
    if fork.left:
        waiting.appendleft(fork.left)
    if fork.left or code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        _failed(session, fork, f"its process has ended, with code {code}")


def _interrupted(forks: list[_Fork]) -> None:
    """They end what they have begun, as by Ctrl-C."""
    for fork in forks:
        fork.said.close()
        os.kill(fork.pid, signal.SIGINT)
    for fork in forks:
        os.waitpid(fork.pid, 0)


def _failed(session: pytest.Session, fork: _Fork, why: str) -> None:
    """The test that a fork was in, or did last, has failed."""
    assert fork.current is not None, why
    item = session.items[fork.current]
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
    session.config.hook.pytest_runtest_logreport(report=report)
