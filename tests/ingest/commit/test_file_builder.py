"""The process that encodes the files of large commits, and the thread that does it without one."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from table_groups import group, run

from distributary.ingest.commit.file_builder import FileBuilder
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.journal.segment import FrameRef
from distributary.pipeline.tables.topic_log.commit_files import CommitFiles

COUNT = 40
#: Enough for a build on a busy machine; one that hangs costs a test as much.
SECONDS_MAX = 5.0


class Builds:
    """A journal of groups of two messages each over several files, and a builder for it."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal.open(folder, segment_bytes=1 << 16)
        self.refs: list[FrameRef] = []
        for number in range(1, COUNT + 1):
            one = group(number, 2 * number - 2, run("t", [b"%d" % number, bytes(4_000)]))
            self.refs.append(self.journal.append(frame.encode(one)))
        self.builder = FileBuilder(self.journal, groups_min=10, seconds_max=SECONDS_MAX)
        self.by_process = 0

    def build(self, refs: list[FrameRef] | None = None) -> CommitFiles:
        """The files of all groups, or of these."""
        made = self.builder.encode(refs or self.refs, (refs or self.refs)[0].group - 1, 0)
        assert made is not None
        assert (made.group, made.sequence) == (
            (refs or self.refs)[-1].group,
            2 * len(refs or self.refs),
        )
        return made

    def process(self) -> int:
        """The process, when it works: until it is ready the thread does what is asked."""
        deadline = time.monotonic() + 120
        while True:
            made = self.build(self.refs[:10])
            if all(isinstance(one, bytearray) for one in made.data):  # they came over the socket
                break
            assert time.monotonic() < deadline, "no process has built anything"
            time.sleep(0.2)
        [pid] = children()
        return pid


def children() -> list[int]:
    """The builders that this process has started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"builder_process" in command and int(parent) == os.getpid():
            found.append(int(process.name))
    return found


@pytest.fixture
def builds(tmp_path: Path) -> Iterator[Builds]:
    made = Builds(tmp_path / "journal")
    yield made
    made.builder.close()
    made.journal.close()
    assert not children()


def same(one: CommitFiles, other: CommitFiles) -> bool:
    """Whether two commits bring the same bytes; names and times of files differ."""
    return [bytes(data) for data in one.data] == [bytes(data) for data in other.data] and [
        (file.rows, file.low, file.high, file.size, file.attributes) for file in one.added
    ] == [(file.rows, file.low, file.high, file.size, file.attributes) for file in other.added]


def test_the_process_makes_what_the_thread_makes(builds: Builds) -> None:
    """Byte for byte, over several files of the journal; the first commit doesn't wait for it."""
    by_thread = builds.build()
    assert all(isinstance(one, memoryview) for one in by_thread.data)
    builds.process()
    assert same(builds.build(), by_thread)


def test_few_groups_need_no_process(builds: Builds) -> None:
    """Below the limit none is started; at 0 none ever."""
    builds.build(builds.refs[:9])
    assert not children()
    never = FileBuilder(builds.journal, groups_min=0)
    assert never.encode(builds.refs, 0, 0) is not None
    assert not children()


def test_a_killed_process_costs_nothing_but_time(builds: Builds) -> None:
    """The commit that meets its death is made by the thread; then there is a new one."""
    by_thread = builds.build()
    pid = builds.process()
    os.kill(pid, signal.SIGKILL)
    assert same(builds.build(), by_thread)
    assert builds.process() != pid
    assert same(builds.build(), by_thread)


def test_each_death_is_said_and_followed_by_a_pause(builds: Builds) -> None:
    """Each death is a line of the log, and no other is started at once."""
    with capture_logs() as lines:
        for _ in range(2):
            os.kill(builds.process(), signal.SIGKILL)
            builds.build()
            builds.build()
            assert not children()  # not before its time
    said = [line for line in lines if line["event"] == "commit.builder_failed"]
    assert [line["reason"] for line in said] == ["it ended with -9"] * 2


def test_one_that_hangs_is_ended(builds: Builds) -> None:
    """The commit waits for it for so long; then the thread makes it."""
    by_thread = builds.build()
    os.kill(builds.process(), signal.SIGSTOP)
    with capture_logs() as lines:
        assert same(builds.build(), by_thread)
    assert [line["reason"] for line in lines] == ["it has no answer after 5 s"]
    assert not children()


def test_what_it_can_not_read_the_thread_reads(builds: Builds, tmp_path: Path) -> None:
    """A file whose name is gone is still open in the gateway: the process fails, says why and is
    left alone for a while."""
    by_thread = builds.build()
    builds.process()
    for path in (tmp_path / "journal").glob("*.journal"):
        path.rename(path.with_suffix(".gone"))
    assert same(builds.build(), by_thread)
    assert same(builds.build(), by_thread)
    assert not children()


def test_it_ends_with_its_gateway(builds: Builds) -> None:
    """No process is left when the gateway has closed."""
    pid = builds.process()
    builds.builder.close()
    assert not Path("/proc", str(pid)).exists()
