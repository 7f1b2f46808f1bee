"""Two-phase commits: a transaction gets a global id at `$management`, its commit prepares it, and
what becomes of it is said there later, by anybody who may, after any restart.
"""

from pathlib import Path

import pytest
from gateway_jms import QUEUE, Jms, source
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway
from gateway_transactions import Transacted, transacted

#: A restart of a gateway in these tests.
RESTARTS = ["kill", "stop"]
TRANSACTION = "transaction"


def asking(gateway: Gateway) -> Manager:
    return Manager(Peer(gateway.port))


def prepared(session: Transacted, manager: Manager, id_: str) -> None:
    """The open transaction is prepared under the id."""
    manager.done("PREPARE", TRANSACTION, id_, transaction=session.id)
    assert session.commit() == ""


def taken(jms: Jms, queue: str, count: int) -> list[object]:
    """What comes from a queue to one who asks for more."""
    jms.subscribed("taker", source(queue, QUEUE))
    jms.credit(count + 1)
    found = jms.bodies(count) if count else []
    assert jms.empty(count=count)
    return found


def moved(jms: Jms, topic: str) -> Transacted:
    """A session that has taken the middle one of three messages and sent another one."""
    jms.publish(f"{topic}-in", "first", "second", "third", capabilities=QUEUE)
    session = transacted(jms)
    session.consumer("in", source(f"{topic}-in", QUEUE), 3)
    came = session.transfers(3)
    session.retire(came[1])
    session.post(session.producer(f"{topic}-out", QUEUE), "moved")
    return session


def restarted(gateway: Gateway, how: str) -> None:
    gateway.kill() if how == "kill" else gateway.stop()
    gateway.start()


def listed(manager: Manager) -> list[str]:
    return [str(row[0]) for row in manager.done("QUERY", TRANSACTION)["results"]]


@pytest.mark.parametrize("how", [*RESTARTS, "neither"])
@pytest.mark.parametrize("commit", [True, False])
def test_what_is_prepared_waits_for_its_word(tmp_path: Path, how: str, *, commit: bool) -> None:
    """Nobody gets what it retired or sees what it posted, whatever ends meanwhile: its connection,
    the gateway. Then all of it is done, or nothing."""
    with Gateway(tmp_path) as gateway:
        with Jms(gateway.port, "worker") as jms:
            session = moved(jms, "q")
            prepared(session, asking(gateway), "7:0a:01")
        if how != "neither":
            restarted(gateway, how)
        manager = asking(gateway)
        assert listed(manager) == ["7:0a:01"]
        row = manager.done("READ", TRANSACTION, "7:0a:01")
        assert (row["messages"], row["deliveries"], row["own"]) == (1, 1, True)
        assert row["topics"] == ["queue://q-in", "queue://q-out"]
        with Jms(gateway.port, "taker") as jms:
            assert taken(jms, "q-in", 2) == ["first", "third"]
        with Jms(gateway.port, "other") as jms:
            assert taken(jms, "q-out", 0) == []
        manager.done("COMMIT" if commit else "ROLLBACK", TRANSACTION, "7:0a:01")
        assert listed(manager) == []
        assert "never was one" in manager.refused(404, "COMMIT", TRANSACTION, "7:0a:01")
        restarted(gateway, "kill")
        with Jms(gateway.port, "last") as jms:
            assert taken(jms, "q-in", int(not commit)) == ["second"] * (not commit)
        with Jms(gateway.port, "other") as jms:
            assert taken(jms, "q-out", int(commit)) == ["moved"] * commit
        gateway.stop()
        gateway.verified()
