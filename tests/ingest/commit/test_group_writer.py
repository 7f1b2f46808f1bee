"""The thread that writes a group: the real writer over a real journal, on a loop of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from table_groups import bodies, group, run

from distributary.ingest.commit.group_writer import GroupWriter
from distributary.ingest.runtime.host import Halt, Host
from distributary.ingest.runtime.load_settings import load
from distributary.pipeline.log.message_counts import MessageCounts, Stalls
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.journal.segment import FrameRef

SMALL, LARGE = 100, 20_000


class Owned:
    """An owner that notes which thread has asked it: each append does, after its fsync."""

    def __init__(self) -> None:
        self.threads: list[str] = []

    def __call__(self) -> None:
        self.threads.append(threading.current_thread().name)


class Writing:
    """A writer whose disk is quick enough, always; `committing` is what its committer does."""

    def __init__(self, folder: Path, **journal: object) -> None:
        self.loop = asyncio.new_event_loop()
        self.owned = Owned()
        self.committing = False
        self.written: list[FrameRef] = []
        self.journal = Journal.open(folder, segment_bytes=1 << 20, owned=self.owned)
        settings = load(None, {}, {f"journal.{name}": value for name, value in journal.items()})
        # More than a setting may be: a busy machine's disk isn't slow here.
        always = replace(settings.journal, loop_write_us=10_000_000)
        settings = replace(settings, journal=always)
        counts = MessageCounts(1, Stalls())
        self.host = Host(self.loop, settings, Halt(self.loop), counts)
        self.writer = GroupWriter(
            self.host, self.journal, lambda: self.committing, self.written.append
        )
        self.number = 0
        self.write(SMALL, own_turn=False)  # the first one needs a new segment
        self.until_written()
        self.owned.threads.clear()

    def write(self, size: int, *, own_turn: bool = True) -> None:
        self.number += 1
        one = group(self.number, self.number - 1, run("t", bodies(1, size)))
        self.writer.write(frame.encode(one), own_turn=own_turn)

    def until_written(self) -> None:
        while len(self.written) < self.number:
            self.loop.run_until_complete(asyncio.sleep(0.001))

    def close(self) -> None:
        self.writer.stop()
        self.journal.close()
        self.loop.close()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Writing]]:
    all_of_them: list[Writing] = []

    def make(**journal: object) -> Writing:
        folder = tmp_path / f"{len(all_of_them)}"
        all_of_them.append(Writing(folder, **journal))
        return all_of_them[-1]

    yield make
    for one in all_of_them:
        one.close()


def test_the_loop_writes_small_groups_in_a_turn_of_its_own(made: Callable[..., Writing]) -> None:
    """They are durable when `write` returns, and asked whose the home is after the fsync."""
    writing = made()
    for _ in range(3):
        writing.write(SMALL)
        assert len(writing.written) == writing.number
    assert writing.owned.threads == ["MainThread"] * 3


@pytest.mark.parametrize("why", ["large", "committing", "in the middle", "off"])
def test_a_thread_writes_all_else(made: Callable[..., Writing], why: str) -> None:
    writing = made(**({"loop_write_bytes": 0} if why == "off" else {}))
    writing.committing = why == "committing"
    writing.write(LARGE if why == "large" else SMALL, own_turn=why != "in the middle")
    assert len(writing.written) < writing.number
    writing.until_written()
    assert writing.owned.threads == ["journal"]


def test_a_new_segment_is_made_by_the_thread(made: Callable[..., Writing]) -> None:
    """A new segment takes several fsyncs. Groups stay in order, whichever thread writes them."""
    writing = made(loop_write_bytes=1 << 20)
    while "journal" not in writing.owned.threads:
        writing.write(200_000)
        writing.until_written()
    assert writing.owned.threads[0] == "MainThread"
    assert [ref.group for ref in writing.written] == list(range(1, writing.number + 1))
    assert len({ref.segment for ref in writing.written}) == 2


def test_an_error_of_the_disk_stops_all_whoever_writes(made: Callable[..., Writing]) -> None:
    """A journal that has died accepts nothing more."""
    writing = made()
    writing.journal.dead = "the disk is gone"
    writing.write(SMALL)
    assert writing.host.halt.on
    assert len(writing.written) < writing.number
