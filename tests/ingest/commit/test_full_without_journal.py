"""Without a journal a disk that takes nothing is told of until it takes something: not only between
two attempts, which may each take long on a store."""

import asyncio
from pathlib import Path

from gateway_process import PATIENCE
from structlog.testing import capture_logs
from table_groups import bodies, framed, group, run

from distributary.ingest.commit.committer import Committer
from distributary.ingest.commit.home_opening import open_store
from distributary.ingest.commit.upkeep_clock import Floors
from distributary.ingest.runtime.host import Halt, Host
from distributary.ingest.runtime.load_settings import load
from distributary.pipeline.log.message_counts import MessageCounts, Stalls
from distributary.pipeline.log.recent_messages import RecentMessages
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import lock

#: Each is looked at several times.
ATTEMPTS = 20


async def states(folder: Path) -> tuple[list[bool], bool]:
    """Whether it was full, at each turn of the loop from the first refusal to the last; and at the
    end, when there was room again."""
    config = folder / "gateway.toml"
    config.write_text('[journal]\ndurability = "delta"\n[commit]\nretry_ms = 1\n')
    settings, loop, home = load(config, {}), asyncio.get_running_loop(), Home(folder / "home")
    done, seen = asyncio.Event(), list[bool]()
    with lock(home) as owner:
        store = open_store(home, settings, owner)
        host = Host(loop, settings, Halt(loop), MessageCounts(1, Stalls()))
        recent = RecentMessages(head=0, bytes_max=1)
        committer = Committer(
            host, store, recent, lambda: Floors(0, 0), lambda: 0, lambda _given: None
        )
        away = home.topic_log.rename(folder / "away")
        home.topic_log.write_text("no folder: nothing can be written below it")
        committer.write([framed(group(1, 0, run("t", bodies(1, 10))))], 1, done.set)
        with capture_logs() as lines:
            while len(lines) < ATTEMPTS:
                await asyncio.sleep(0.000_5)  # the thread needs the interpreter, too
                if lines:
                    seen.append(committer.parked)
        home.topic_log.unlink()
        away.rename(home.topic_log)
        await asyncio.wait_for(done.wait(), PATIENCE)
        committer.stop()
        await loop.run_in_executor(None, committer.join)
        store.journal.close()
        return seen, committer.parked


def test_it_is_full_until_a_group_is_written(tmp_path: Path) -> None:
    """Also while the group is tried again."""
    seen, after = asyncio.run(states(tmp_path))
    assert all(seen)
    assert not after
