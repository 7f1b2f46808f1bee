"""`distributary upgrade --check` over homes of before, of today and of a version to come; and what
a gateway does with the last ones."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Field
from fork_server import commands
from gateway_peer import Peer
from gateway_process import Gateway
from verify_homes import snapshot

from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import segment
from distributary.pipeline.tables.recovery import dispatch_marks

FIRST_FORMAT = Path(__file__).parents[2] / "formats" / "first_format" / "topic_log"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """One of the first format."""
    made = Home(tmp_path / "gateway" / "home")
    shutil.copytree(FIRST_FORMAT, made.topic_log)
    return made


def upgrade(home: Home, *words: object) -> tuple[int, dict[str, Any]]:
    """The exit code, and the parts by name; the other things that it says are under ''."""
    done = commands().run("upgrade", "--check", "--home", home.root, "--json", *words)
    said = json.loads(done.stdout)
    parts = {part["part"]: part for part in said.pop("parts")}
    return done.returncode, parts | {"": said}


def test_a_home_of_the_first_format_is_changed_once(home: Home) -> None:
    """It is said before the start, which then does so; afterwards there is nothing to change."""
    before = snapshot(home.root)
    code, said = upgrade(home)
    assert code == 3
    assert said[""]["changes"] == ["topic_log"]
    assert (said[""]["opens"], said[""]["rollback"]) == (True, False)
    assert (said["topic_log"]["found"], said["topic_log"]["ours"]) == ("format 1", "format 4")
    assert snapshot(home.root) == before
    people = commands().run("upgrade", "--check", "--home", home.root)
    assert people.returncode == 3
    assert "Make one first (`distributary backup`)." in people.stdout
    with Gateway(home.root.parent) as gateway:
        with Peer(gateway.port, "worker") as peer:
            peer.sender("orders").publish("more")
            code, said = upgrade(home)  # beside the gateway that runs
            assert (code, said["topic_log"]["fate"], said["journal"]["found"]) == (
                0,
                "same",
                "version 1",
            )
        gateway.stop()
    code, said = upgrade(home)
    assert (code, said[""]["rollback"], said["marks"]["found"]) == (0, True, "version 1")


def newer_journal(home: Home) -> None:
    home.journal_dir.mkdir()
    head = segment.HEADER.pack(segment.MAGIC, segment.VERSION + 1, 0, 1, 1, b"\0" * 8, 8192)
    (home.journal_dir / "00000001.journal").write_bytes(head.ljust(8192, b"\0"))


def newer_marks(home: Home) -> None:
    head = dispatch_marks.HEADER.pack(
        dispatch_marks.MAGIC, dispatch_marks.VERSION + 1, 512, b"\0" * 32
    )
    home.marks.write_bytes(dispatch_marks.checked(head).ljust(512 * 128, b"\0"))


def newer_table(home: Home) -> None:
    DeltaTable(home.topic_log).alter.add_columns([Field("later", "string", nullable=True)])


@pytest.mark.parametrize(
    ("of_tomorrow", "part", "says"),
    [
        (newer_journal, "journal", "this program reads version 1"),
        (newer_marks, "marks", "is of version 2, ours is 1"),
        (newer_table, "topic_log", "look at"),
    ],
)
def test_what_a_later_version_wrote_is_refused_and_stays_as_it_is(
    home: Home, of_tomorrow: Callable[[Home], None], part: str, says: str
) -> None:
    """`--check` says so; a start says the same, and no part of the home is another one afterwards:
    the version that wrote it opens it still."""
    of_tomorrow(home)
    before = snapshot(home.root)
    code, said = upgrade(home)
    assert (code, said[""]["opens"], said[part]["fate"]) == (1, False, "refused")
    assert says in said[part]["sentence"]
    assert snapshot(home.root) == before
    done = commands().run("serve", "--home", home.root, "--listen", "127.0.0.1:0")
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    after = snapshot(home.root)
    assert {name: after.pop(name) for name in before} == before
    assert {Path(name).name for name in after} == {"lock", "lock.takeover"}


def test_files_of_the_settings_that_can_not_be_used(home: Home, tmp_path: Path) -> None:
    """A version that knows fewer keys refuses them at its start; here it is said before."""
    policies, config = tmp_path / "policies.toml", tmp_path / "gateway.toml"
    config.write_text(f'[delivery]\npolicies = "{policies}"\n')
    policies.write_text('[[subscription]]\nmatch = "*"\nlock_ms = 5\n')
    code, said = upgrade(home, "--config", config)
    assert (code, said["settings"]["fate"]) == (3, "same")
    policies.write_text('[[subscription]]\nmatch = "*"\nlock_of_tomorrow = 5\n')
    code, said = upgrade(home, "--config", config)
    assert (code, said["settings"]["fate"]) == (1, "refused")
    assert "lock_of_tomorrow" in said["settings"]["sentence"]


def test_what_is_no_home_and_what_nobody_checks(tmp_path: Path) -> None:
    done = commands().run("upgrade", "--check", "--home", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path} is no gateway's home" in done.stderr
    done = commands().run("upgrade", "--home", tmp_path)
    assert done.returncode == 2
    assert "by the next start of the gateway" in done.stderr
