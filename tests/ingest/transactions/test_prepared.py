"""Two-phase commits: a transaction gets a global id at `$management`, its commit prepares it, and a
user with the right to it commits it or rolls it back there later, after any restart.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from gateway_fields import make
from gateway_jms import QUEUE, Jms, source, text_message, text_of
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway, until
from gateway_transactions import Transacted, condition_of, transacted
from table_groups import DAY_US
from table_story import KEEP_ALL
from test_frames_deliveries import count_of

from distributary.ingest.cli.transaction_commands import transaction
from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing
from distributary.ingest.transactions.coordinator import COMMAND_CREDIT
from distributary.pipeline.management.management_messages import STATUS
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

#: A restart of a gateway in these tests.
RESTARTS = ["kill", "stop"]
TRANSACTION = "transaction"
Make = Callable[..., Gateway]


def asking(gateway: Gateway) -> Manager:
    return Manager(Peer(gateway.port))


def prepared(session: Transacted, manager: Manager, id_: str) -> None:
    """The open transaction is prepared under the id."""
    manager.done("PREPARE", TRANSACTION, id_, transaction=session.id)
    assert session.commit() == ""


def taken(jms: Jms, queue: str, count: int) -> list[object]:
    """The messages of a queue for a consumer with credit for one more."""
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


def events_of(gateway: Gateway) -> list[str]:
    """The files of the log that the events of transactions lie in, each as often as it has one."""
    table = DeltaTable(Home(gateway.home).topic_log)
    files = [path for path in table.file_uris() if "/record=subscription/" in path]
    found = [pq.read_table(path, columns=["subscription"], partitioning=None) for path in files]
    return [
        path
        for path, table in zip(files, found, strict=True)
        for name in table["subscription"].to_pylist()
        if name.startswith(TRANSACTION)
    ]


def listed(manager: Manager) -> list[str]:
    return [str(row[0]) for row in manager.done("QUERY", TRANSACTION)["results"]]


@pytest.mark.parametrize("how", [*RESTARTS, "neither"])
@pytest.mark.parametrize("commit", [True, False])
def test_what_is_prepared_waits_for_its_word(tmp_path: Path, how: str, *, commit: bool) -> None:
    """No consumer gets the messages that it retired or posted, also if its connection or the
    gateway ends meanwhile. Then all of its work is done, or nothing."""
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


def test_a_rollback_of_the_session_is_one_and_prepares_nothing(
    gateway: Gateway, topic: str
) -> None:
    """Though it had a global id; so does the end of its connection."""
    manager = asking(gateway)
    with Jms(gateway.port) as jms:
        session = moved(jms, topic)
        for id_ in ("1:01:", "1:02:"):
            manager.done("PREPARE", TRANSACTION, id_, transaction=session.id)
            if id_ == "1:01:":
                assert session.roll_back() == ""
        assert "never was one" in manager.refused(404, "READ", TRANSACTION, "1:01:")
    manager.refused(404, "COMMIT", TRANSACTION, "1:02:")
    with Jms(gateway.port, "taker") as jms:
        assert taken(jms, f"{topic}-in", 3) == ["first", "second", "third"]


def test_what_failed_is_not_prepared(gateway: Gateway, topic: str) -> None:
    """Its commit says why, and nothing of it is left; neither what isn't there, nor without id."""
    manager = asking(gateway)
    with Jms(gateway.port) as jms:
        session = moved(jms, topic)
        state = make("transactional-state", txn_id=session.id)
        nowhere = text_message("lost", "temp-queue://gone")
        lost = session.transfer(session.producer(None), nowhere, state=state)
        condition = condition_of(session.answer(lost))
        assert condition
        text = manager.refused(STATUS[condition], "PREPARE", TRANSACTION, "1:03:",
                               transaction=session.id)  # fmt: skip
        assert text
        assert session.commit() == condition
        text = manager.refused(500, "PREPARE", TRANSACTION, "1:03:", transaction=bytes(8))
        assert "no open transaction" in text
        text = manager.refused(400, "PREPARE", TRANSACTION, "1:03:", transaction=b"short")
        assert "8 bytes" in text
        text = manager.refused(400, "COMMIT", TRANSACTION, "somehow")
        assert "131077:0a1b:01" in text
    manager.refused(404, "COMMIT", TRANSACTION, "1:03:")


def test_an_end_is_asked_for_again_and_not_changed(gateway: Gateway, topic: str) -> None:
    """Both at once, as by a transaction manager that lost the first answer, and the other end."""
    manager, other = asking(gateway), asking(gateway)
    with Jms(gateway.port) as jms:
        session = moved(jms, topic)
        prepared(session, manager, "1:04:")
        session.post(session.producer(f"{topic}-out", QUEUE), "more")
        again = manager.ask("PREPARE", TRANSACTION, "1:04:", transaction=session.id)
        if again.status == 200:  # it is in another log, whose owner knows when it is to be prepared
            assert session.commit() != ""
        else:
            assert (again.status, "already" in again.text) == (409, True)
        first = manager.send("ROLLBACK", TRANSACTION, "1:04:")
        assert other.ask("ROLLBACK", TRANSACTION, "1:04:").status in (204, 404)
        assert manager.answer(first).status in (204, 404)
        manager.refused(404, "COMMIT", TRANSACTION, "1:04:")
        prepared(session, manager, "1:04:")
        manager.done("COMMIT", TRANSACTION, "1:04:")


def test_what_is_rolled_back_comes_again_as_seen(tmp_path: Path) -> None:
    """In its place, with a failed attempt, after a restart, too; what was released in it without
    being seen has none."""
    with Gateway(tmp_path) as gateway:
        with Jms(gateway.port, "worker") as jms:
            jms.publish("q", *range(4), capabilities=QUEUE)
            session = transacted(jms)
            session.consumer("q", source("q", QUEUE), 4)
            came = session.transfers(4)
            session.retire(came[1])
            session.retire(came[2], outcome=make("released"))
            prepared(session, asking(gateway), "1:05:")
        restarted(gateway, "kill")
        asking(gateway).done("ROLLBACK", TRANSACTION, "1:05:")
        with Jms(gateway.port, "taker") as jms:
            jms.subscribed("q", source("q", QUEUE))
            jms.credit(5)
            again = jms.expect(*["transfer"] * 4)
            assert [text_of(one.payload) for one in again] == list(range(4))
            assert count_of(again[1]) == count_of(again[2]) + 1


def test_an_operators_word_is_stronger(tmp_path: Path) -> None:
    """A rewind gives what a prepared transaction took to others: its commit does the rest."""
    with Gateway(tmp_path) as gateway:
        manager = asking(gateway)
        with Jms(gateway.port) as jms:
            prepared(moved(jms, "q"), manager, "1:06:")
        manager.done("REWIND", "queue", "q-in", to=0)
        restarted(gateway, "kill")
        manager = asking(gateway)
        with Jms(gateway.port, "taker") as jms:
            assert taken(jms, "q-in", 3) == ["first", "second", "third"]
        manager.done("COMMIT", TRANSACTION, "1:06:")
        with Jms(gateway.port, "other") as jms:
            assert taken(jms, "q-out", 1) == ["moved"]
        gateway.stop()
        gateway.verified()


def test_merged_files_keep_what_is_prepared(tmp_path: Path) -> None:
    """When its day is over and the events of several commits are one file, a start finds the work
    that waits, and nothing of what has ended."""
    with Gateway(tmp_path, {"commit": {"interval_ms": 20}}) as gateway:
        manager = asking(gateway)
        with Jms(gateway.port, "worker") as jms:
            for nth, topic in enumerate("pqr"):
                prepared(moved(jms, topic), manager, f"5:0{nth}:")
                until(lambda nth=nth: len(events_of(gateway)) > nth, "its event in the table")
        manager.done("COMMIT", TRANSACTION, "5:00:")
        manager.done("ROLLBACK", TRANSACTION, "5:02:")
        gateway.stop()
        assert len(set(events_of(gateway))) > 3
        log = TopicLog.open(Home(gateway.home).topic_log, limits=KEEP_ALL)
        later = time.time_ns() // 1_000 + 3 * DAY_US
        assert "merge" in [step.kind for step in iter(lambda: log.upkeep(now=later, floor=0), None)]
        assert len(events_of(gateway)) == 5
        assert len(set(events_of(gateway))) == 1
        gateway.start()
        manager = asking(gateway)
        assert listed(manager) == ["5:01:"]
        with Jms(gateway.port, "taker") as jms:
            assert taken(jms, "q-in", 2) == ["first", "third"]
        manager.done("COMMIT", TRANSACTION, "5:01:")
        for topic in "pqr":
            with Jms(gateway.port, "other") as jms:
                assert taken(jms, f"{topic}-out", int(topic != "r")) == ["moved"] * (topic != "r")
        gateway.stop()
        gateway.verified()


def test_duplicates_are_looked_for_at_the_commit(own_gateway: Make, tmp_path: Path) -> None:
    """An id that was rolled back isn't known; of two that are prepared the first commit counts,
    also after a restart."""
    policies = tmp_path / "policies.toml"
    policies.write_text('[[topic]]\nmatch = "once"\nduplicates_messages = 100\n')
    with own_gateway({"delivery": {"policies": str(policies)}}) as gateway:
        manager = asking(gateway)
        with Jms(gateway.port, "reader") as jms:
            jms.subscribed("N", source("once", durable=True))
        with Jms(gateway.port) as jms:
            session = transacted(jms)
            to = session.producer("once")
            for body, id_ in (("back", "1:07:"), ("first", "1:08:"), ("second", "1:09:")):
                state = make("transactional-state", txn_id=session.id)
                session.transfer(to, text_message(body, number=7), state=state)
                prepared(session, manager, id_)
        restarted(gateway, "kill")
        manager = asking(gateway)
        manager.done("ROLLBACK", TRANSACTION, "1:07:")
        manager.done("COMMIT", TRANSACTION, "1:08:")
        manager.done("COMMIT", TRANSACTION, "1:09:")
        with Jms(gateway.port, "reader") as jms:
            jms.subscribed("N", source("once", durable=True))
            jms.credit(3)
            assert jms.bodies(1) == ["first"]
            assert jms.empty(count=1)


def test_a_session_prepares_as_often_as_it_likes(gateway: Gateway, topic: str) -> None:
    """The coordinator's link gets its credit back."""
    manager = asking(gateway)
    with Jms(gateway.port) as jms:
        session = transacted(jms)
        to = session.producer(topic, QUEUE)
        for nth in range(COMMAND_CREDIT):
            session.post(to, nth)
            prepared(session, manager, f"8:{nth:02x}:")
            manager.done("COMMIT", TRANSACTION, f"8:{nth:02x}:")


def test_many_are_listed_in_parts_and_limits_hold(own_gateway: Make) -> None:
    """The oldest first. One more than may be isn't prepared, and its commit says which limit."""
    settings = {"amqp": {"prepared_max": 5}, "management": {"query_count_max": 2}}
    ids = [f"9:{nth:02x}:" for nth in range(5)]
    with own_gateway(settings) as gateway:
        manager = asking(gateway)
        with Jms(gateway.port) as jms:
            session = transacted(jms)
            to = session.producer("q", QUEUE)
            for id_ in ids:
                session.post(to, id_)
                prepared(session, manager, id_)
            [posted] = session.post(to, "one more")
            assert condition_of(session.answer(posted)) == ""
            text = manager.refused(409, "PREPARE", TRANSACTION, "9:ff:", transaction=session.id)
            assert "amqp.prepared_max" in text
        restarted(gateway, "kill")
        manager = asking(gateway)
        found: list[str] = []
        while part := manager.done(
            "QUERY", TRANSACTION, offset=len(found), attributeNames=["name"]
        ):
            found += [name for [name] in part["results"]]
            assert len(part["results"]) <= 2
            assert part["total"] == 5
            if len(found) == 5:
                break
        assert found == ids


def test_others_do_not_see_it_and_a_manager_ends_it_by_force(tmp_path: Path) -> None:
    """Nor may the manager end it without `force`; the user who prepared it may, from another
    connection."""
    users, permissions = tmp_path / "users.toml", tmp_path / "permissions.toml"
    with changing(users) as known:
        for name in ("worker", "stranger", "keeper"):
            known[name] = user_of("x")
    permissions.write_text(
        """
[worker]
publish = ["queue://*"]
consume = ["queue://*"]
create = ["queue://*"]
[stranger]
publish = ["queue://*"]
consume = ["queue://*"]
[keeper]
manage = ["queue://*"]
"""
    )
    settings = {"security": {"users": str(users), "permissions": str(permissions)}}
    with Gateway(tmp_path / "gateway", settings) as gateway:

        def manager(user: str) -> Manager:
            return Manager(Peer(gateway.port, user=user, password="x"))  # noqa: S106

        worker, stranger, keeper = map(manager, ("worker", "stranger", "keeper"))
        with Jms(gateway.port, "w", user="worker") as jms:
            session = moved(jms, "q")
            stranger.refused(500, "PREPARE", TRANSACTION, "1:0a:", transaction=session.id)
            for id_ in ("1:0a:", "1:0b:"):
                session.post(session.producer("q-out", QUEUE), "more")
                prepared(session, worker, id_)
        for verb in ("READ", "COMMIT", "ROLLBACK"):
            stranger.refused(404, verb, TRANSACTION, "1:0a:")
        assert (listed(stranger), listed(keeper)) == ([], ["1:0a:", "1:0b:"])
        text = keeper.refused(403, "ROLLBACK", TRANSACTION, "1:0a:")
        assert "say force" in text
        stranger.refused(404, "ROLLBACK", TRANSACTION, "1:0a:", force=True)
        keeper.done("ROLLBACK", TRANSACTION, "1:0a:", force=True)
        worker.done("COMMIT", TRANSACTION, "1:0b:")
        assert listed(keeper) == []


def test_the_command_lists_and_ends_them(tmp_path: Path) -> None:
    """And the metrics say how many there are, and how old the oldest is."""
    with Gateway(tmp_path) as gateway:
        with Jms(gateway.port) as jms:
            prepared(moved(jms, "q"), asking(gateway), "1:0c:ff")
        address = f"amqp://127.0.0.1:{gateway.port}"

        def said(*words: str) -> str:
            done = CliRunner().invoke(transaction, [*words, "--gateway", address])
            assert done.exit_code == 0, done.output
            return done.output

        [row] = json.loads(said("list", "--json"))
        assert (row["name"], row["messages"], row["state"]) == ("1:0c:ff", 1, "prepared")
        assert "1:0c:ff" in said("list")
        assert "is committed" in said("commit", "1:0c:ff", "--yes")
        assert json.loads(said("list", "--json")) == []
