"""Live state of a running gateway, which no table has, asked by `$management`: see
`pipeline.management.live_state`."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from distributary.jobs.client.management_client import Client, Gateway, Refused
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.management.live_state import Held, Live, LiveConsumer, LiveSubscription
from distributary.pipeline.management.management_messages import ABSENT, Entity, Verb
from distributary.pipeline.model.subscription import SubscriptionKey

_SUBSCRIPTION = Entity.SUBSCRIPTION


def live(gateway: str, subscription: str | None = None) -> Live:
    """Return the live state of the durable subscriptions of a gateway's log, or of one of any log
    of a lake, given by its id or by a bare name that only one has.

    `gateway` is `host:port` or `amqp[s]://user:password@host:port`; its user needs `consume` or
    `manage` on the topics. Raises Unanswered when no gateway answers, InvalidRequest when there is
    no such subscription. States of two subscriptions are of two moments, milliseconds apart.
    """
    with Client(Gateway.at(gateway)) as client:
        return ask(client, subscription)


def ask(client: Client, subscription: str | None = None) -> Live:
    """Return the live state over an existing connection, as `live` does."""
    asked_at = time.time_ns() // 1_000
    if subscription is None:
        log = str(client.ask(Verb.READ, Entity.NODE, "self")["log_name"])
        durable = [row for row in client.query(_SUBSCRIPTION, log) if row["durable"]]
    else:
        listed = client.query(_SUBSCRIPTION)
        durable = [_found([row for row in listed if row["durable"]], subscription)]
        log = durable[0]["log"]
    rows = (_subscription(client, row["name"], log) for row in durable)
    found = tuple(row for row in rows if row is not None)
    return Live(asked_at, found, own_log(client, log))


def own_log(client: Client, log: str = "") -> LogIdentity:
    """Return the identity of the gateway's topic_log, or of this log's of a lake. Raises
    InvalidRequest for a gateway of an older version."""
    return LogIdentity.of(client.ask(Verb.READ, Entity.NODE, "self", log=log).get("table"))


def _found(durable: list[dict[str, Any]], subscription: str) -> dict[str, Any]:
    """Return the subscription with this id or name."""
    found = [one for one in durable if one["name"] == subscription] or [
        one for one in durable if SubscriptionKey.parse(one["name"]).name == subscription
    ]
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(f"{one['name']} in the log {one['log']}" for one in found)
        raise InvalidRequest(f"{subscription!r} names several subscriptions, give an id: {ids}.")
    raise InvalidRequest(f"The gateway has no durable subscription {subscription!r}.")


def _subscription(client: Client, name: str, log: str) -> LiveSubscription | None:
    """Return a subscription's live state; None if it has gone meanwhile."""
    try:
        row = client.ask(Verb.READ, _SUBSCRIPTION, name, log=log)
        held = tuple(_held(client, name, log)) if row["in_flight"] else ()
    except Refused as error:
        if error.status == ABSENT:
            return None
        raise
    return LiveSubscription(
        subscription=name,
        paused=row["paused"],
        floor=row["floor"],
        backlog=row["backlog"],
        attempts_max=row["policy_in_force"]["delivery_attempts_max"],
        consumers=tuple(map(_consumer, row["links"])),
        held=held,
    )


def _consumer(link: Mapping[str, Any]) -> LiveConsumer:
    return LiveConsumer(
        name=link["name"],
        credit=link["credit"],
        active=link["active"],
        in_flight=link["in_flight"],
        oldest_delivered_at=_us(link["oldest_delivered_at"]),
    )


def _held(client: Client, name: str, log: str) -> Iterator[Held]:
    """Yield all messages that its consumers hold, part by part."""
    start = 0
    while True:
        part = client.ask(Verb.HELD, _SUBSCRIPTION, name, {"from": start}, log)
        for sequence, consumer, delivered_at, delivery_count in part["results"]:
            yield Held(sequence, consumer, _us(delivered_at), delivery_count)
            start = sequence + 1
        if not part["results"]:
            return


def _us(timestamp: int | None) -> int | None:
    return None if timestamp is None else int(timestamp) * 1_000
