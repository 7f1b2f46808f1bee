"""Without a journal `accepted` waits for the Delta commit.

The same promises are held by the same tests, and a home may change from one durability to the
other.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from gateway_links import encoded
from gateway_peer import Connect
from gateway_process import Gateway, Settings
from test_restart import (  # noqa: F401 (collected here too, with the gateways of this file)
    everything,
    test_a_deleted_subscription_stays_deleted,
    test_cursors_and_the_whole_log_say_the_same,
    test_durable_subscriptions_their_positions_and_exceptions_outlive_it,
    test_restarts_in_a_row_change_nothing,
    test_sigterm_says_goodbye_and_commits,
)

Make = Callable[..., Gateway]
BY_DELTA: Settings = {"journal": {"durability": "delta"}}
BY_JOURNAL: Settings = {"journal": {"durability": "journal"}}


@pytest.fixture
def own_gateway(own_gateway: Make) -> Make:
    """Gateways without a journal, if nothing else is said of it."""
    return lambda settings=None: own_gateway({**BY_DELTA, **(settings or {})})


def versions(gateway: Gateway) -> int:
    return DeltaTable(gateway.home / "tables/topic_log").version()


def journal_files(home: Path) -> list[Path]:
    folder = home / "journal"
    return list(folder.iterdir()) if folder.exists() else []


def test_what_is_accepted_is_in_the_table(own_gateway: Make, connect: Connect) -> None:
    """Already when the publisher hears of it; after SIGKILL nothing is replayed, all is there, and
    what was confirmed as settled stays so. No file of a journal is ever made."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        sender = peer.sender("t")
        for n in range(5):
            sender.publish(*range(100 * n, 100 * n + 100))
            table = DeltaTable(gateway.home / "tables/topic_log")
            assert table.transaction_version("sequence") == 100 * n + 100
        receiver.confirm(receiver.take(50))
        gateway.kill()
        assert not journal_files(gateway.home)
        gateway.start()
        assert not gateway.events("journal.replayed")
        assert everything(connect("c", port=gateway.port).durable("t", "mine")) == list(
            range(50, 500)
        )


def test_a_home_changes_from_one_durability_to_the_other(
    own_gateway: Make, connect: Connect
) -> None:
    """The groups in the journal are replayed first; then its files are gone; and back again."""
    with own_gateway({**BY_JOURNAL, "commit": {"interval_ms": 3_600_000}}) as gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t", "mine"), closed=False)
        peer.sender("t").publish(*range(100))
        gateway.kill()
        by_journal = gateway.config.read_text()
        assert journal_files(gateway.home)
        for turn in range(1, 4):
            by_delta = turn % 2
            gateway.config.write_text(
                '[journal]\ndurability = "delta"\n' if by_delta else by_journal
            )
            gateway.start()
            assert bool(journal_files(gateway.home)) != bool(by_delta)
            connect(port=gateway.port).sender("t").publish(*range(100 * turn, 100 * turn + 100))
            gateway.kill()
        gateway.start()
        assert everything(connect("c", port=gateway.port).durable("t", "mine")) == list(range(400))


def test_small_groups_wait_for_each_other(own_gateway: Make, connect: Connect) -> None:
    """With `journal.linger_ms` what many publish one by one is a commit for all of them; without
    it would be one for each turn at least."""
    with own_gateway({"journal": {"durability": "delta", "linger_ms": 150}}) as gateway:
        senders = [connect(port=gateway.port).sender("t") for _ in range(5)]
        before = versions(gateway)
        for n in range(4):
            deliveries = [sender.send(encoded(n)) for sender in senders]
            for sender in senders:
                sender.peer.write()
            for sender, delivery in zip(senders, deliveries, strict=True):
                sender.outcome(delivery)
                delivery.settle()
        assert versions(gateway) - before <= 8
        gateway.stop()
