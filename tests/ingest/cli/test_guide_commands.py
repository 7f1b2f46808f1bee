"""The commands of the README and the guides, typed in their order on one gateway.

Those of Spark's jobs are run where a JVM is (`jobs/views/test_guide_spark.py`), those of the guides
to management and security in tests of their own.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from command_lines import commands_of, is_ours
from doc_blocks import blocks
from fork_server import clean_environment, commands
from gateway_http import ShownGateway
from gateway_process import PATIENCE

#: What goes on until it is ended: a gateway runs here already, the console has tests of its own.
ENDLESS = ("serve", "console")


@dataclass(frozen=True)
class Reader:
    """Types what a page says. What stands in it for a place of the reader's is `replaced`."""

    gateway: ShownGateway
    replaced: Mapping[str, str]

    def types(
        self, page: str, first: str, *, given: str = "", codes: tuple[int, ...] = (0,)
    ) -> list[str]:
        """The output of each command in the page's block that begins with `first`; each command
        must end with one of the codes."""
        [block] = [one for one in blocks(page) if one.first.startswith(first)]
        shown = []
        for command in commands_of(block.text):
            assert is_ours(command), command
            words = [self._here(word) for word in command[1:]]
            if words[0] in (
                "backup",
                "upgrade",
            ):  # the reader's home is the gateway's; others are made of it
                words[words.index("--home") + 1] = str(self.gateway.home)
            if words[0] in ENDLESS:
                continue
            if words[0] == "top":
                words += ["--once", "--metrics", f"127.0.0.1:{self.gateway.http_port}"]
            done = commands().run(
                *words,
                given=given,
                timeout=PATIENCE,
                environment={
                    **clean_environment(),
                    "DISTRIBUTARY_GATEWAY": f"127.0.0.1:{self.gateway.port}",
                    "COLUMNS": "120",
                },
            )
            assert done.returncode in codes, (command, done.stdout, done.stderr)
            shown.append(done.stdout)
        return shown

    def _here(self, word: str) -> str:
        for there, here in self.replaced.items():
            if word.startswith(there):
                return here + word.removeprefix(there)
        return word


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("reader")
    (folder / "jobs.txt").write_text("wash\ndry\n")
    with ShownGateway(folder) as gateway:
        replaced = {
            "build/home": str(gateway.home),
            "build/": f"{folder}/",
            "/srv/distributary": str(gateway.home),
            "/srv/lake": f"{folder}/lake",
            "/srv/hot": f"{folder}/hot",
            "/etc/distributary/": f"{folder}/",
            "/mnt/backup/orders": f"{folder}/nightly",
            "~/orders": f"{folder}/orders",
            "gateway.toml": str(gateway.config),
            "jobs.txt": f"{folder}/jobs.txt",
            "127.0.0.1:8162": f"127.0.0.1:{gateway.http_port}",
        }
        yield Reader(gateway, replaced)


def test_the_readme(reader: Reader) -> None:
    """A newcomer's first success is a full one: of two messages one is taken, one stays."""
    page = "README.md"
    nothing, _, taken, screen = reader.types(page, ".venv/bin/distributary consume orders")
    assert nothing == ""
    assert taken.splitlines() == ["one pizza"]
    assert "container/distributary-cli/billing" in screen
    info, sound, _ = reader.types(page, ".venv/bin/distributary info", codes=(0, 1))
    assert "container/distributary-cli/billing" in info
    assert "sound" in sound
    reader.types(page, ".venv/bin/distributary backup")
    assert (reader.gateway.home.parent / "restored" / "tables" / "topic_log").is_dir()


def test_the_guide_to_clients(reader: Reader) -> None:
    """The shared subscription is there already, as after its first use."""
    place = ("--gateway", f"127.0.0.1:{reader.gateway.port}")
    made = commands().run("subscription", "create", "global/billing", "--topic", "orders", *place)
    assert made.returncode == 0, made.stderr
    _, _, taken, _ = reader.types("docs/guides/clients.md", "distributary publish orders")
    [message] = map(json.loads, taken.splitlines())
    assert (message["body"], message["properties"]) == ("one pizza", {"kind": "large"})


def test_the_guide_to_backups(reader: Reader) -> None:
    """By night, and at once; what is restored is another home here, as the first one lives."""
    page = "docs/guides/backup.md"
    [shown] = reader.types(page, "0 3 * * *")
    assert json.loads(shown)["bytes"] > 0
    copied, restored, sound = reader.types(page, "distributary backup --home ~/orders")
    assert "the log" in copied + restored
    assert "sound" in sound


def test_before_a_new_version(reader: Reader) -> None:
    """It is the version of before here: nothing changes."""
    checked, copied = reader.types("docs/guides/upgrade.md", "distributary upgrade")
    assert "opens" in checked
    assert "the version of before can go on with it" in checked
    assert "the next message is" in copied


def test_watching(reader: Reader) -> None:
    [screen] = reader.types("docs/guides/monitoring.md", "distributary top")
    assert "serves" in screen


def test_a_home_becomes_a_lake(reader: Reader) -> None:
    """With the answer that the page shows."""
    page, folder = "docs/logs.md", reader.replaced["build/"]
    shown = reader.types(page, "distributary log create")[-1]
    said, *_ = [one for one in blocks(page) if one.first.startswith("main ")]
    assert shown.replace(f"{folder}lake", "/srv/lake") == said.text


def test_a_hot_topic_is_partitioned(reader: Reader) -> None:
    [*_, shown] = reader.types("docs/guides/partitions.md", "distributary log create")
    assert "queue://orders -> main, east, west, 3 partitions each\nticks.# -> east, west" in shown


def test_before_the_first_start(reader: Reader) -> None:
    """A machine of tests may have what no service should: exit code 1, and its sentences."""
    [sentences] = reader.types("docs/guides/deploy.md", "distributary doctor", codes=(0, 1))
    assert "http.listen" in sentences


def test_whether_a_home_is_sound(reader: Reader) -> None:
    """The last of all: for a repair the gateway must be stopped."""
    reader.gateway.stop()
    places = {"DIR": str(reader.gateway.home), "gateway.toml": str(reader.gateway.config)}
    shown = Reader(reader.gateway, places).types("docs/durability.md", "distributary verify")
    assert len(shown) == 4
    reader.gateway.start()
