"""Each event of a subscription says which user did it, in the table and in the gateway's log."""

from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway
from proton import Delivery

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

Make = Callable[..., Gateway]


def events(gateway: Gateway, subscription: str) -> list[tuple[str, str | None, str | None]]:
    """The subscription's events, each with its user and the subscription's maker."""
    rows = DeltaTable(gateway.home / "tables" / "topic_log").to_pyarrow_table(
        filters=[("record", "=", "subscription"), ("subscription", "=", subscription)]
    )
    found = sorted(rows.to_pylist(), key=lambda row: row["group"])
    return [(row["event"], row["by"], row["created_by"]) for row in found]


def users_of(folder: Path, *names: str) -> str:
    file = folder / "users.toml"
    with changing(file) as known:
        for name in names:
            known[name] = user_of("x")
    return str(file)


def test_each_operation_leaves_the_name_of_its_user(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """So does the making of the subscription: also over a crash, after which the table has it from
    the journal."""
    said = {"security": {"users": users_of(tmp_path, "maker", "hand", "client")}}
    gateway = own_gateway(said).start()

    def manager(user: str) -> Manager:
        return Manager(connect(port=gateway.port, user=user, password="x"))  # noqa: S106

    maker, hand = manager("maker"), manager("hand")
    maker.done("CREATE", "subscription", "global/s", topic="t")
    hand.done("PAUSE", "subscription", "global/s")
    maker.done("RESUME", "subscription", "global/s")
    hand.done("UPDATE", "subscription", "global/s", policy={"lock_ms": 5_000})
    maker.peer.sender("t").publish_data([encoded("a")])
    hand.done("SKIP", "subscription", "global/s")
    maker.done("REWIND", "subscription", "global/s", to=0)
    hand.done("PURGE", "subscription", "global/s")
    link = maker.peer.shared_durable("t", "s|global")
    hand.done("CLOSE", "subscription", "global/s")
    assert maker.peer.amqp_error(link) == "amqp:link:detach-forced"
    hand.done("REDRIVE", "subscription", "global/s")
    gateway.kill()
    gateway.start()
    manager("hand").done("DELETE", "topic", "t", force=True)
    client = connect(port=gateway.port, user="client", password="x")  # noqa: S106
    client.leave(client.shared_durable("t", "c|global"), closed=False)
    other: Peer = connect(port=gateway.port, user="hand", password="x")  # noqa: S106
    red = selector("colour = 'red'")
    other.leave(other.shared_durable("t", "c|global", filters=red), closed=False)
    assert client.unsubscribe("c|global") == ""
    gateway.stop()
    assert events(gateway, "global/s") == [
        ("created", "maker", "maker"),
        ("paused", "hand", "maker"),
        ("resumed", "maker", "maker"),
        ("configured", "hand", "maker"),
        ("rewound", "hand", "maker"),
        ("rewound", "maker", "maker"),
        ("purged", "hand", "maker"),
        ("deleted", "hand", "maker"),
    ]
    assert events(gateway, "global/c") == [
        ("created", "client", "client"),
        ("redefined", "hand", "client"),
        ("deleted", "client", "client"),
    ]
    for event in ("paused", "purged", "closed", "redriven"):
        assert {one["by"] for one in gateway.events(f"subscription.{event}")} == {"hand"}, event


def test_who_need_not_log_in_is_anonymous_and_the_gateway_is_nobody(
    own_gateway: Make, connect: Connect
) -> None:
    """The queue of dead letters is the gateway's own doing."""
    gateway = own_gateway().start()
    peer = connect("c", port=gateway.port)
    link = peer.shared_durable("t", "s|global")
    peer.sender("t").publish("bad")
    [first] = link.take(1)
    link.confirm([first], Delivery.REJECTED)
    manager = Manager(peer)
    manager.done("PAUSE", "queue", "DLQ.global/s")
    gateway.stop()
    assert events(gateway, "global/s") == [("created", "anonymous", "anonymous")]
    assert events(gateway, "queue/DLQ.global%2Fs") == [
        ("created", None, None),
        ("paused", "anonymous", None),
    ]
    [made] = [one for one in gateway.events("subscription.created") if "DLQ" in str(one)]
    assert "by" not in made
