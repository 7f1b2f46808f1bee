"""Waiting transactions over several logs are listed: for which log, since when, and whose."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from faults import Fault
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import until
from points import POINTS
from test_shared_moments import NOT_WRITTEN, SYNCED, TRANSACTION, Lake, rows, working

from distributary.ingest.cli.transaction_commands import transaction
from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

Row = dict[str, Any]
PERMISSIONS = """
[worker]
publish = ["queue://*"]
consume = ["queue://*"]
create = ["queue://*"]
[stranger]
publish = ["*", "queue://*"]
[tenant]
manage = ["queue://*"]
[keeper]
manage = ["*", "queue://*"]
"""


def listed(log: str, lake: Lake, *, code: int = 0) -> list[Row]:
    """The rows that the command lists at a gateway."""
    address = f"amqp://127.0.0.1:{lake.gateways[log].port}"
    done = CliRunner().invoke(transaction, ["list", "--json", "--gateway", address])
    assert done.exit_code == code, done.output
    found: list[Row] = json.loads(done.stdout)
    return found


def test_a_decided_one_is_seen_until_the_other_log_has_it(tmp_path: Path) -> None:
    """By the list, though that log can't be asked, by READ and by the metrics; after a restart,
    too, and since the decision. It isn't rolled back, nor given up before the other log has had
    its time to answer."""
    lake = Lake(tmp_path, "main")
    with working(lake) as session:
        lake.layers["orders"].arm(Fault(POINTS[NOT_WRITTEN], "kill", 2))
        session.send_discharge(fail=False)
        lake.killed("orders")
        main = lake.gateways["main"]
        until(lambda: main.metric("decided_transactions") == 1, "it is decided")
        [row] = listed("main", lake, code=1)  # without what is in `orders`
        assert (row["state"], row["log"], row["waits_for"]) == ("decided", "main", ["orders"])
        assert (row["topics"], row["own"]) == (None, False)
        until(lambda: main.metric("decided_oldest_seconds") > 0, "it waits")
        assert main.metric("prepared_transactions") == 0
        main.kill()
        killed_at = time.time() * 1_000
        lake.start("main")
        manager = Manager(Peer(main.port))
        assert rows(manager)[0]["recorded_at"] < killed_at
        assert manager.done("READ", TRANSACTION, row["name"])["state"] == "decided"
        for verb, why in (("COMMIT", "fleet.owner_wait_ms"), ("ROLLBACK", "COMMIT it with force")):
            text = manager.refused(409, verb, TRANSACTION, row["name"], force=True)
            assert "when the owner of each of these answers: orders" in text
            assert why in text
        lake.start("orders")
        lake.ends()
        assert main.metric("decided_transactions") == main.metric("decided_oldest_seconds") == 0
        assert lake.coins() == (0, 1)


def test_a_prepared_one_says_for_which_log_it_waits(tmp_path: Path) -> None:
    lake = Lake(tmp_path, "main")
    with working(lake) as session:
        lake.layers["main"].arm(Fault(POINTS[SYNCED], "kill", 1))
        session.send_discharge(fail=False)
        lake.killed("main")
        [row] = listed("orders", lake, code=1)
        assert (row["state"], row["log"], row["waits_for"]) == ("prepared", "orders", ["main"])
        assert lake.gateways["orders"].metric("prepared_transactions") == 1
        lake.start("main")
        lake.ends()


@contextmanager
def decided(folder: Path) -> Iterator[Lake]:
    """The user `worker` has committed, and the log `orders` is lost before it has its part."""
    users, permissions = folder / "users.toml", folder / "permissions.toml"
    with changing(users) as known:
        for name in ("worker", "stranger", "tenant", "keeper"):
            known[name] = user_of("x")
    permissions.write_text(PERMISSIONS)
    lake = Lake(
        folder,
        "main",
        DISTRIBUTARY_SECURITY_USERS=str(users),
        DISTRIBUTARY_FLEET_OWNER_WAIT_MS="1000",
        DISTRIBUTARY_SECURITY_PERMISSIONS=str(permissions),
    )
    with working(lake, "worker") as session:
        lake.layers["orders"].arm(Fault(POINTS[NOT_WRITTEN], "kill", 2))
        session.send_discharge(fail=False)
        lake.killed("orders")
        main = lake.gateways["main"]
        until(lambda: main.metric("decided_transactions") == 1, "it is decided")
        yield lake


def asking(lake: Lake, log: str, user: str) -> Manager:
    return Manager(Peer(lake.gateways[log].port, user=user, password="x"))  # noqa: S106


def test_who_manages_everything_sees_what_is_decided(tmp_path: Path) -> None:
    """And the user whose it is. To others it isn't there, with force or without."""
    with decided(tmp_path) as lake:
        manager = partial(asking, lake, "main")
        [[name], [same]] = ([one["name"] for one in rows(manager(u))] for u in ("worker", "keeper"))
        assert name == same
        for user in ("stranger", "tenant"):
            other = manager(user)
            assert rows(other) == []
            for verb in ("READ", "COMMIT", "ROLLBACK"):
                # Another log, which is away, may have it: the answer isn't that it is unknown.
                said = other.ask(verb, TRANSACTION, name)
                assert said.status >= 400, verb
                assert "decided" not in said.text


def test_a_log_that_is_lost_for_good_is_given_up(tmp_path: Path) -> None:
    """By who manages everything, and says so. It is waited for no more, after a restart, too. If it
    comes back all the same, its part is rolled back."""
    with decided(tmp_path) as lake:
        main = lake.gateways["main"]
        worker, keeper = asking(lake, "main", "worker"), asking(lake, "main", "keeper")
        [name] = [one["name"] for one in rows(keeper)]
        for manager, status, force in ((keeper, 409, False), (worker, 403, True)):
            manager.refused(status, "COMMIT", TRANSACTION, name, force=force)
        until(lambda: main.metric("decided_oldest_seconds") > 1, "orders has had its time")
        keeper.done("COMMIT", TRANSACTION, name, force=True)
        assert main.metric("decided_transactions") == 0
        main.kill()
        lake.start("main")
        assert main.metric("decided_transactions") == 0
        assert main.events("transaction.given_up")[0]["by"] == "keeper"
        lake.start("orders")
        there = asking(lake, "orders", "keeper")
        until(lambda: not rows(there), "orders has asked")
        assert lake.coins("worker") == (1, 1)
