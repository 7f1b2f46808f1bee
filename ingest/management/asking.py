"""Checks of a request: the user's rights to a subscription and to a policy, the attributes of a
query, the place in the log."""

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.management.entities import Row
from distributary.ingest.runtime import clock
from distributary.ingest.security.access import Access
from distributary.ingest.subscriptions.operations import Order, letters_of
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.codec.amqp_types import Map, Timestamp, Value
from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.log.log_position import PLACE_MAX, AtEnd, AtTime, Place, place
from distributary.pipeline.management.management_messages import (
    BAD_REQUEST,
    OK,
    Answer,
    Request,
    Verb,
)
from distributary.pipeline.model.address import Destination, Kind
from distributary.pipeline.model.amqp_error import NOT_FOUND, AmqpError
from distributary.pipeline.model.subscription import Definition, SubscriptionKey
from distributary.pipeline.subscriptions.policy_table import dead_letter_queue
from distributary.pipeline.subscriptions.registry import key_of_queue
from distributary.pipeline.subscriptions.rights import LinkOperation, Rights
from distributary.pipeline.subscriptions.subscription_operations import Operation


def forbidden(
    access: Access,
    user: str,
    verb: Verb,
    key: SubscriptionKey,
    wanted: Definition | None,
    existing: Subscription | None,
) -> AmqpError | None:
    """Return why the user may not do this to the subscription of this key; None if it is allowed.
    `wanted` is the definition of a subscription to create. One that the user may not see is refused
    as one that isn't there."""
    absent = AmqpError(NOT_FOUND, f"there is no subscription {key.id}")
    if wanted is not None:
        return access.amqp_error(user, verb, wanted.topic, key)
    if key.queue:
        kind = Kind.QUEUE if key.durable else Kind.TEMPORARY_QUEUE
        queue = Destination(kind, key.name).topic
        return access.amqp_error(user, verb, queue, key) or (None if existing else absent)
    if existing is None or not access.rights.sees(user, key, existing.definition.topic):
        return absent
    return access.amqp_error(user, verb, existing.definition.topic, key)


def forbidden_policy(
    access: Access, user: str, directory: SubscriptionDirectory, order: Order
) -> AmqpError | None:
    """Return why the user may not set this policy; None if it is allowed. A user who names a queue
    of dead letters must be allowed to send there, as the policy sends messages there."""
    if order.operation not in (Operation.CREATE, Operation.UPDATE) or not order.policy:
        return None
    existing, key = directory.get(order.key), order.key
    definition = order.definition or (existing.definition if existing else None)
    if definition is None:
        return None  # the operation itself refuses a missing subscription
    amqp_error = access.amqp_error(user, LinkOperation.SET_POLICY, definition.topic, key)
    address = letters_of(order.policy, key)
    queue = dead_letter_queue(address)
    if (
        amqp_error is not None
        or queue is None
        or address == letters_of(directory.own_policy(key), key)
    ):
        return amqp_error
    amqp_error = access.amqp_error(user, LinkOperation.SET_DEAD_LETTERS, queue.topic)
    if amqp_error is None and key_of_queue(queue) not in directory:
        amqp_error = access.amqp_error(user, LinkOperation.MAKE_QUEUE, queue.topic)
    return amqp_error


def rights_asked(node: Row, rights: Rights, user: str, request: Request, most: int) -> Answer:
    """Answer with the gateway's attributes and the asking user's rights: the destinations of
    `consume` from which the user may consume, those of `manage` that the user may manage, and the
    subscriptions of the map `see` (each with its topic) that the user may see, whether they exist
    or not. Raises InvalidRequest for an invalid id."""
    consume, manage = _names(request, "consume"), _names(request, "manage")
    pairs = request.attributes.get("see", Map())
    assert isinstance(pairs, Map), pairs  # noqa: S101 (`parse` has looked)
    if len(consume) + len(manage) + len(pairs.pairs) > most:
        text = "names in 'consume', 'manage' and 'see' (management.query_count_max)"
        return Answer(BAD_REQUEST, f"more than {most} {text}")
    ids = [one for one in pairs.pairs if isinstance(one[0], str) and isinstance(one[1], str)]
    consumed = [one for one in consume if rights.allow(user, LinkOperation.CONSUME, one)]
    managed = [one for one in manage if rights.allow(user, Verb.PURGE, one)]
    seen: list[Value] = [
        name
        for name, topic in ids
        if rights.allow(user, Verb.QUERY, str(topic), SubscriptionKey.parse(str(name)))
    ]
    said: Row = {"consume": list[Value](consumed), "manage": list[Value](managed), "see": seen}
    return Answer(OK, "the gateway", {**node, **said})


def _names(request: Request, attribute: str) -> list[str]:
    said = request.attributes.get(attribute, [])
    assert isinstance(said, list), said  # noqa: S101 (`parse` has looked)
    return [one for one in said if isinstance(one, str)]


def attribute_names(request: Request, rows: list[Row]) -> list[str] | Answer:
    """Return the wanted columns; all of them if none are named."""
    there = list(rows[0]) if rows else []
    said = request.attributes.get("attributeNames")
    names = said if isinstance(said, list) and said else list[Value](there)
    wanted: list[str] = []
    for name in names:
        if not isinstance(name, str) or (rows and name not in there):
            text = f"'attributeNames' has {quoted(name)}; there are {', '.join(there)}"
            return Answer(BAD_REQUEST, text)
        wanted.append(name)
    return wanted


def wants_policies(request: Request) -> bool:
    """Whether a query asks for policies, which are most of the work for a row."""
    said = request.attributes.get("attributeNames")
    return not isinstance(said, list) or not said or any("policy" in str(one) for one in said)


def place_of(to: Value) -> Place:
    """Return the place in the log that a request names; the end if it names none."""
    if to is None:
        return AtEnd()
    if isinstance(to, Timestamp):
        return AtTime(min(max(int(to), 0) * 1_000, PLACE_MAX))
    return place(to, clock.now())
