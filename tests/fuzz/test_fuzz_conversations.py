"""Random conversations against the normal build: a few hundred, and each that once failed, again.

`make fuzz` goes on for as long as one likes, with sanitizers.
"""

import random
from collections import Counter
from pathlib import Path

import pytest
from fuzz_cells import CELLS, Cell
from fuzz_logins import GOOD
from fuzz_model import Speaker
from fuzz_round import Place, Tried, conversation
from fuzz_transcript import Say, read
from gateway_frames import AMQP_HEADER, SASL_HEADER, open_frame
from gateway_hostile import MIB, rss

TRANSCRIPTS = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))
#: Conversations of the short round, and what memory may grow by in the second half of them.
CONVERSATIONS, LOGINS = 200, 40
GROWTH_BYTES_MAX = 24 * MIB


def test_whatever_is_said_the_gateway_serves(tmp_path: Path) -> None:
    """Beside hundreds of random conversations a witness is served, the log has no bug, the end is
    clean, the home is sound, and memory stays about where it was."""
    with Tried(Place(tmp_path / "gateway")) as gateway:
        for number in range(CONVERSATIONS):
            gateway.converse(conversation(random.Random(number), Counter()))
            if number == CONVERSATIONS // 2:
                before = rss(gateway)
        assert rss(gateway) - before < GROWTH_BYTES_MAX
        gateway.end()


def test_whoever_must_log_in_is_heard_alike(tmp_path: Path) -> None:
    """On a gateway with users a right login opens, and any other bytes before it harm no other
    client."""
    with Tried(Place(tmp_path / "gateway", users=True)) as gateway:
        gateway.converse([Say(0, one) for one in (SASL_HEADER, GOOD, AMQP_HEADER, open_frame("a"))])
        assert not gateway.events("connection.failed")
        for number in range(LOGINS):
            gateway.converse(conversation(random.Random(f"u{number}"), Counter(), users=True))
        assert gateway.events("connection.failed")
        gateway.end()


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory):
    with Tried(Place(tmp_path_factory.mktemp("transcripts") / "gateway")) as gateway:
        yield gateway
        gateway.end()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_what_once_failed(path: Path, tried: Tried) -> None:
    """A transcript that ended the gateway, or showed a bug of its own, does so no more."""
    tried.converse(read(path))


def test_each_cell_is_said() -> None:
    """A few hundred conversations are enough to say every performative in every state of what it
    names, legal and not."""
    cells: Counter[Cell] = Counter()
    for seed in range(800):
        Speaker(random.Random(seed), "fuzz", cells).frames(60)
    assert [str(cell) for cell in CELLS if not cells[cell]] == []


def test_a_seed_says_all() -> None:
    one, other = (conversation(random.Random("7/3"), Counter()) for _ in range(2))
    assert one == other
    assert one != conversation(random.Random("7/4"), Counter())
