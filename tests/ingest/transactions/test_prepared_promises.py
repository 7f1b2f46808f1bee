"""Promises to a prepared transaction hold at its commit, and take nothing from other clients."""

import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from deltalake import DeltaTable
from gateway_fields import make
from gateway_jms import QUEUE, Jms, no_local, source
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from gateway_schemas import checkers, schema, sent
from gateway_transactions import condition_of, transacted
from test_prepared import TRANSACTION, asking, listed, prepared, restarted, taken

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing
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


def test_acknowledgements_count_for_no_later_subscription_of_the_name(
    own_gateway: Make, connect: Connect
) -> None:
    """Amid the transaction the subscription was deleted and made again, and is owed the same
    messages. What was sent in the transaction is published all the same; after a restart, too."""
    with own_gateway() as gateway:
        sender, manager = connect(port=gateway.port).sender("t"), asking(gateway)
        manager.done("CREATE", "subscription", "global/s", topic="t")
        sender.publish("a", "b")
        with Jms(gateway.port) as jms:
            session = transacted(jms)
            of = source("t", ("topic", "shared", "global"), durable=True)
            handle = session.consumer("s|global", of, 2)
            session.retire(*session.transfers(2))
            session.post(session.producer("out", QUEUE), "sent")
            jms.detach(closed=False, handle=handle, channel=session.channel)
            session.until("detach")
            manager.done("DELETE", "subscription", "global/s")
            manager.done("CREATE", "subscription", "global/s", topic="t", since=0)
            prepared(session, manager, "1:08:")
        restarted(gateway, "kill")
        asking(gateway).done("COMMIT", TRANSACTION, "1:08:")
        peer = connect(port=gateway.port)
        assert peer.shared_durable("t", "s|global").bodies(2) == ["a", "b"]
        assert peer.receiver("out", capabilities=("queue",)).bodies(1) == ["sent"]
        gateway.stop()
        gateway.verified()


@pytest.mark.parametrize("committed", [True, False])
def test_a_group_waits_for_a_prepared_message_after_a_restart(
    own_gateway: Make, connect: Connect, *, committed: bool
) -> None:
    """After each of them. The others of the group come when it has ended, a rollback's message
    before them."""
    with own_gateway() as gateway:
        with Jms(gateway.port) as jms:
            sender = connect(port=gateway.port).sender("queue://q")
            groups = [("first", "g"), ("second", "g"), ("of another", "h"), ("third", "g")]
            sender.publish_data([encoded(body, group_id=group) for body, group in groups])
            session = transacted(jms)
            session.consumer("q", source("q", QUEUE), 2)
            session.retire(session.transfers(2)[1])
            prepared(session, asking(gateway), "1:07:")
        for how, free in (("kill", ["of another"]), ("stop", [])):
            restarted(gateway, how)
            receiver = connect(port=gateway.port).receiver("q", capabilities=("queue",))
            assert receiver.bodies(len(free)) == free
            assert receiver.nothing()
        asking(gateway).done("COMMIT" if committed else "ROLLBACK", TRANSACTION, "1:07:")
        expected = ["first", "third"] if committed else ["first", "second", "third"]
        assert receiver.bodies(len(expected)) == expected
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


def test_what_a_connection_has_published_is_its_own_at_the_commit(own_gateway: Make) -> None:
    """A consumer on it that wants nothing of its own gets nothing of it, though the transaction is
    prepared no more as a part of the connection."""
    with own_gateway() as gateway, Jms(gateway.port) as jms:
        session = transacted(jms)
        session.consumer("others'", source("news", filters=no_local()), 5)
        to = session.producer("news")
        session.post(to, "mine")
        manager = asking(gateway)
        prepared(session, manager, "1:03:")
        manager.done("COMMIT", TRANSACTION, "1:03:")
        with Jms(gateway.port) as other:
            other.publish("news", "theirs")
        assert session.bodies(1) == ["theirs"]


def test_users_do_not_see_each_others_ids(own_gateway: Make, tmp_path: Path) -> None:
    """Equal ids of two users don't collide. A prepared transaction keeps the destinations of the
    time when it was prepared, also if some are gone: after a restart no other user may end it."""
    users, permissions = tmp_path / "users.toml", tmp_path / "permissions.toml"
    with changing(users) as known:
        for name in ("worker", "second", "keeper"):
            known[name] = user_of("x")
    rights = 'publish = ["queue://*"]\nconsume = ["queue://*"]\ncreate = ["queue://*"]\n'
    permissions.write_text(
        f'[worker]\n{rights}manage = ["queue://a"]\n[second]\n{rights}manage = ["queue://b"]\n'
        '[keeper]\nmanage = ["queue://*"]\n'
    )
    settings = {"security": {"users": str(users), "permissions": str(permissions)}}
    with own_gateway(settings) as gateway:

        def manager(user: str) -> Manager:
            return Manager(Peer(gateway.port, user=user, password="x"))  # noqa: S106

        for user, queue in (("worker", "a"), ("second", "b")):
            with Jms(gateway.port, user, user=user) as jms:
                for name in (queue, "c"):
                    jms.publish(name, "taken", capabilities=QUEUE)
                session = transacted(jms)
                session.consumer("in", source(queue, QUEUE), 1)
                session.retire(*session.transfers(1))
                prepared(session, manager(user), "1:04:")
                if user == "worker":
                    session.post(session.producer("b", QUEUE), "posted")
                    session.consumer("again", source("c", QUEUE), 1)
                    session.retire(*session.transfers(1))
                    prepared(session, manager(user), "1:05:")
        for name, owner in (("a", "worker"), ("c", "keeper")):
            manager(owner).done("REWIND", "queue", name, to=0)
        gateway.kill()
        gateway.start()
        worker, second, keeper = map(manager, ("worker", "second", "keeper"))
        assert [listed(one) for one in (worker, second)] == [["1:04:", "1:05:"], ["1:04:"]]
        second.refused(404, "READ", TRANSACTION, "1:05:")
        assert keeper.done("READ", TRANSACTION, "1:05:")["topics"] == ["queue://b", "queue://c"]
        text = keeper.refused(400, "ROLLBACK", TRANSACTION, "1:04:", force=True)
        assert "each of the users second, worker" in text
        keeper.done("ROLLBACK", TRANSACTION, "1:04:", force=True, user="second")
        worker.done("COMMIT", TRANSACTION, "1:04:")
        second.refused(404, "COMMIT", TRANSACTION, "1:04:")
        worker.done("COMMIT", TRANSACTION, "1:05:")
        gateway.stop()
        gateway.verified()


def test_nothing_waits_where_nothing_was_done(own_gateway: Make) -> None:
    """A transaction manager asks for no second phase. The answer to PREPARE says what was done
    until then; what comes after it, as what waits for a schema may, is prepared all the same."""
    with own_gateway() as gateway, Jms(gateway.port) as jms:
        manager, session = asking(gateway), transacted(jms)
        said = manager.done("PREPARE", TRANSACTION, "1:06:", transaction=session.id)
        assert said == {"works": False}
        assert session.commit() == ""
        assert listed(manager) == []
        [posted] = session.post(session.producer("q", QUEUE), "one")
        assert condition_of(session.answer(posted)) == ""
        said = manager.done("PREPARE", TRANSACTION, "1:06:", transaction=session.id)
        assert said == {"works": True}
        assert session.commit() == ""
        manager.done("PREPARE", TRANSACTION, "1:07:", transaction=session.id)
        session.post(session.producer("q", QUEUE), "late")
        assert session.commit() == ""
        assert listed(manager) == ["1:06:", "1:07:"]
