"""What a prepared transaction was promised holds at its commit, and takes nothing from others."""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from deltalake import DeltaTable
from gateway_fields import make
from gateway_jms import QUEUE, Jms
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway
from gateway_schemas import checkers, schema, sent
from gateway_transactions import condition_of, transacted
from test_prepared import TRANSACTION, asking, prepared, restarted, taken

from distributary.pipeline.tables.home.home import Home

Make = Callable[..., Gateway]


def test_a_queue_that_was_deleted_meanwhile_is_made_again(own_gateway: Make) -> None:
    """Its commit was promised, and nothing was in the queue when it was deleted."""
    with own_gateway() as gateway:
        with Jms(gateway.port) as jms:
            session = transacted(jms)
            session.post(session.producer("q", QUEUE), "promised")
            prepared(session, asking(gateway), "1:01:")
        manager = asking(gateway)
        manager.done("DELETE", "queue", "q")
        manager.done("COMMIT", TRANSACTION, "1:01:")
        restarted(gateway, "kill")
        with Jms(gateway.port) as jms:
            assert taken(jms, "q", 1) == ["promised"]
        gateway.stop()
        gateway.verified()


def test_the_room_of_a_backlog_is_its_own_when_it_commits(
    own_gateway: Make, tmp_path: Path
) -> None:
    """Not while it is prepared: others fill the queue meanwhile, and all that was said to fit is
    published."""
    policies = tmp_path / "policies.toml"
    policies.write_text(
        '[[subscription]]\nmatch = "queue/*"\n'
        'backlog_messages_max = 10\nbacklog_overflow = "refuse"\n'
    )
    with own_gateway({"delivery": {"policies": str(policies)}}) as gateway:
        manager = asking(gateway)
        with Jms(gateway.port) as jms:
            session = transacted(jms)
            to = session.producer("q", QUEUE)
            session.post(to, *range(9))
            prepared(session, manager, "1:02:")
            session.post(to, *range(10))
            assert session.commit() == ""
            session.post(to, "one more")
            assert session.commit() == "amqp:resource-limit-exceeded"
        manager.done("COMMIT", TRANSACTION, "1:02:")
        with Jms(gateway.port) as jms:
            assert len(taken(jms, "q", 19)) == 19


def test_prepares_that_come_at_once_are_no_larger_group_than_others(
    own_gateway: Make, connect: Connect
) -> None:
    """All of them waited for the schema; and however long a group may wait, what fills a commit
    closes it."""
    settings = {
        "commit": {"bytes": 65_536},
        "journal": {"linger_ms": 1_000},
        "schemas": {"check_ms_max": 60_000},
    }
    body = b'{"id": 1, "note": "%s"}' % (b"x" * 70_000)
    with own_gateway(settings) as gateway, ExitStack() as open_:
        peer = connect(port=gateway.port)
        manager = Manager(peer)
        manager.done("UPDATE", "schema", "orders", **schema(validate="refuse"))
        sent(peer, "orders", b'{"id": 0}')
        [pid] = checkers(gateway)
        os.kill(pid, signal.SIGSTOP)
        sessions = [transacted(open_.enter_context(Jms(gateway.port))) for _ in range(3)]
        ends = []
        for nth, session in enumerate(sessions):
            state = make("transactional-state", txn_id=session.id)
            session.transfer(session.producer("orders"), encoded(body), state=state)
            manager.done("PREPARE", TRANSACTION, f"2:0{nth}:", transaction=session.id)
            ends.append(session.send_discharge(fail=False))
        peer.heard()
        os.kill(pid, signal.SIGCONT)
        for session, end in zip(sessions, ends, strict=True):
            assert condition_of(session.answer(end)) == ""
        gateway.stop()
    table = DeltaTable(Home(gateway.home).topic_log).to_pyarrow_table(columns=["group", "event"])
    groups = [row["group"] for row in table.to_pylist() if row["event"] == "prepared"]
    assert len(set(groups)) == len(groups) == len(sessions)
