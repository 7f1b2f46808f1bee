"""Requests to `$management`: permission, action and answer of each.

Rule 1: the permission that a request needs is a row of `pipeline.subscriptions.rights`.
Rule 2: an answer tells nothing of entities that a user may not see, not even that they exist.
"""

import time
from collections.abc import Callable, Mapping
from typing import assert_never

import structlog

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.management.asking import (
    attribute_names,
    forbidden,
    forbidden_policy,
    place_of,
    rights_asked,
    wants_policies,
)
from distributary.ingest.management.consumer_report import HELD, dropped_by, held, links, lost
from distributary.ingest.management.entities import Entities, Row, key_of, new_queue_of, topic_of
from distributary.ingest.management.management_parts import ManagementParts
from distributary.ingest.management.redrive import Redrive
from distributary.ingest.schemas.schema_requests import SchemaRequests
from distributary.ingest.subscriptions.hints import Hints
from distributary.ingest.subscriptions.operations import Operations, Order
from distributary.ingest.transactions.transaction_requests import TransactionRequests
from distributary.pipeline.codec.amqp_types import Map, Value
from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.management.listings import Listings, Name
from distributary.pipeline.management.management_messages import (
    ABSENT,
    BAD_REQUEST,
    CREATED,
    FAILED,
    NO_CONTENT,
    OK,
    REQUESTS,
    Answer,
    Entity,
    Request,
    Verb,
    refused,
    texts,
)
from distributary.pipeline.model.address import Destination
from distributary.pipeline.model.amqp_error import INVALID_FIELD, UNAUTHORIZED, AmqpError
from distributary.pipeline.model.subscription import Definition, SubscriptionKey
from distributary.pipeline.subscriptions import attach_intent
from distributary.pipeline.subscriptions.hint import unpacked
from distributary.pipeline.subscriptions.policy_table import text_of
from distributary.pipeline.subscriptions.subscription_operations import Operation

_events = structlog.get_logger("gateway")

_OPERATIONS: dict[Verb, Operation] = {
    Verb.CREATE: Operation.CREATE,
    Verb.UPDATE: Operation.UPDATE,
    Verb.DELETE: Operation.DELETE,
    Verb.PAUSE: Operation.PAUSE,
    Verb.RESUME: Operation.RESUME,
    Verb.PURGE: Operation.PURGE,
    Verb.REWIND: Operation.REWIND,
    Verb.SKIP: Operation.SKIP,
    Verb.CLOSE: Operation.CLOSE,
}


#: Names that a query checks without a break, some 30 us each where rights have many patterns.
LOOKED_AT_ONCE = 64


class Requests:
    """Answers requests, also several at the same time: each is independent."""

    def __init__(
        self,
        parts: ManagementParts,
        entities: Entities,
        operations: Operations,
        transactions: TransactionRequests,
    ) -> None:
        messages, self._settings = parts.messages, parts.host.settings
        self._turns, self._access, self._directory = parts.turns, parts.access, parts.directory
        self._entities, self._operations = entities, operations
        self._transactions = transactions
        self._listings = Listings(time.monotonic)
        self._redrive = Redrive(parts)
        schemas, limits = parts.schemas, self._settings.schemas
        self._schemas = SchemaRequests(parts.access, schemas, limits, messages.log)
        table, most = messages.store.table, self._settings.delivery.hint_matches_max
        paging = messages.delivery.paging
        self._hints = Hints(parts.directory, paging, lambda: table.sequence_version, most)

    def close(self) -> None:
        """End operations that wait for the table."""
        self._operations.close()

    async def answer(self, user: str, request: Request) -> Answer:
        """Answer a request, when its effects are durable."""
        try:
            return await self._answer(user, request)
        except InvalidRequest as error:
            return Answer(BAD_REQUEST, str(error))
        except StoreError as error:
            return Answer(FAILED, str(error))

    async def _answer(self, user: str, request: Request) -> Answer:
        if request.verb is Verb.QUERY and request.entity is not Entity.TRANSACTION:
            return await self._query(user, request)
        match request.entity:
            case Entity.NODE:
                return self._node(user, request)
            case Entity.TOPIC:
                return await self._topic(user, request)
            case Entity.QUEUE | Entity.SUBSCRIPTION:
                return await self._subscription(user, request)
            case Entity.SCHEMA:
                return await self._schemas.answer(user, request)
            case Entity.TRANSACTION:
                return await self._transactions.answer(user, request)
            case _ as never:
                assert_never(never)

    def _node(self, user: str, request: Request) -> Answer:
        match request.verb:
            case Verb.GET_TYPES:
                return Answer(OK, "types", {"types": [entity.value for entity in Entity]})
            case Verb.GET_OPERATIONS:
                known = {one: _verbs(one) for one in Entity}
                return Answer(OK, "operations", {one.value: known[one] for one in Entity})
            case _ if request.name == "self":
                most, rights = self._settings.management.query_count_max, self._access.rights
                return rights_asked(self._entities.node(), rights, user, request, most)
        return Answer(ABSENT, f"there is no node '{request.name}'; this one is 'self'")

    # Reading.

    async def _query(self, user: str, request: Request) -> Answer:
        """List a part of the entities that the user may see, with the attributes asked for."""
        most, rights = self._settings.management.query_count_max, self._access.rights
        offset, count = _whole(request, "offset", 0), _whole(request, "count", most)
        if count > most:
            text = f"'count' is {count}; it may be {most} (management.query_count_max)"
            return Answer(BAD_REQUEST, f"{text}, and 'offset' leads on")
        names = self._listings.of(user, request.entity) if offset else None
        if names is None:
            names = await self._listed(user, request.entity)
        part = [
            one
            for one in names[offset : offset + count]
            if rights.allow(user, Verb.QUERY, one[1], one[2])
        ]
        await self._turns.turn()
        wide = wants_policies(request)
        rows = self._entities.rows(request.entity, part, self._may_see(user), policies=wide)
        wanted = attribute_names(request, rows)
        if isinstance(wanted, Answer):
            return wanted
        results: list[Value] = [[_plain(row.get(name)) for name in wanted] for row in rows]
        body: Row = {"attributeNames": list[Value](wanted), "results": results, "total": len(names)}
        await self._turns.turn()  # encoding the answer is as much work
        return Answer(OK, f"{len(rows)} of {len(names)}", body)

    async def _listed(self, user: str, entity: Entity) -> list[Name]:
        """Return all names that the user may see, and keep them for requests of further parts."""
        rights, names = self._access.rights, list[Name]()
        for nth, one in enumerate(self._entities.names(entity)):
            if rights.allow(user, Verb.QUERY, one[1], one[2]):
                names.append(one)
            if nth % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
                await self._turns.turn()
        self._listings.keep(user, entity, names)
        return names

    def _may_see(self, user: str) -> Callable[[Subscription], bool]:
        rights = self._access.rights
        return lambda one: rights.allow(user, Verb.QUERY, one.definition.topic, one.key)

    # Topics.

    async def _topic(self, user: str, request: Request) -> Answer:
        """Answer about a topic. It exists by its name alone: creating it checks the name, deleting
        it deletes its subscriptions."""
        topic = topic_of(request.name, self._settings.delivery.pattern_style)
        if isinstance(topic, AmqpError):
            return refused(topic)
        if why := self._access.amqp_error(user, request.verb, topic.topic):
            return refused(why)
        may_see = self._may_see(user)
        if request.verb is Verb.READ:
            return Answer(OK, "the topic", self._entities.topic(topic.topic, None, may_see))
        if request.verb is Verb.CREATE:
            text = "a topic needs no making: it is there while it is used"
            return Answer(CREATED, text, self._entities.topic(topic.topic, None, may_see))
        forced = request.attributes.get("force") is True
        return await self._end_topic(user, topic, forced=forced)

    async def _end_topic(self, user: str, topic: Destination, *, forced: bool) -> Answer:
        on = list(self._directory.no_local.of_topic(topic.topic))
        keys = [one.key for one in on if one.key is not None and one.durable]
        if any(self._access.amqp_error(user, Verb.DELETE, topic.topic, key) for key in keys):
            text = f"'{topic.topic}' has durable subscriptions that user '{user}' may not end"
            return refused(AmqpError(UNAUTHORIZED, text))
        if keys and not forced:
            names = ", ".join(key.id for key in keys[:5])
            text = f"'{topic.topic}' has {len(keys)} durable subscriptions ({names}"
            return Answer(409, f"{text}{', ...' if len(keys) > 5 else ''}); say force to end them")
        dropped = 0
        for key in keys:
            done = await self._operations.perform(Order(Operation.DELETE_ANYWAY, key, user=user))
            if not isinstance(done, AmqpError):
                dropped += dropped_by(done)
            elif self._directory.get(key) is not None:
                return refused(done)
        text = f"{len(keys)} durable subscriptions have ended; messages dropped: {dropped}"
        return Answer(NO_CONTENT, text, {"dropped": dropped})

    # Subscriptions and queues.

    async def _subscription(self, user: str, request: Request) -> Answer:
        key = key_of(request.entity, request.name)
        if isinstance(key, AmqpError):
            return refused(key)
        definition = self._wanted(key, request)
        if isinstance(definition, AmqpError):
            return refused(definition)
        existing = self._directory.get(key)
        most = self._settings.amqp.name_bytes_max
        if existing is None and len(request.name.encode()) > most:
            text = f"the name has more than {most} bytes (amqp.name_bytes_max)"
            return refused(AmqpError(INVALID_FIELD, text))
        why = forbidden(self._access, user, request.verb, key, definition, existing)
        if why is not None:
            return refused(why)
        if existing is not None and request.verb is Verb.READ:
            row = {**self._row(request.entity, key), "links": links(existing)}
            row |= self._entities.place() | self._redrive.letters(existing)
            return Answer(OK, f"the {request.entity}", row)
        if existing is not None and request.verb is Verb.HELD:
            return self._held(existing, request)
        if existing is not None and request.verb is Verb.REDRIVE:
            return await self._redriven(user, key, request)
        if existing is not None and request.verb is Verb.HINT:
            return await self._hinted(existing, request.attributes)
        return await self._operate(user, key, definition, request)

    async def _operate(
        self, user: str, key: SubscriptionKey, definition: Definition | None, request: Request
    ) -> Answer:
        order = self._order(user, key, definition, request)
        if isinstance(order, AmqpError):
            return refused(order)
        why = forbidden_policy(self._access, user, self._directory, order)
        if why is not None:
            return refused(why)
        done = await self._operations.perform(order)
        if isinstance(done, AmqpError):
            return refused(done)
        if request.verb is Verb.DELETE:
            return Answer(NO_CONTENT, f"{key.id} has been deleted{lost(done)}", done)
        status = CREATED if request.verb is Verb.CREATE else OK
        row, text = self._row(request.entity, key), _SAID[request.verb].format(key.id)
        return Answer(status, f"{text}{lost(done)}", {**row, **done})

    def _row(self, entity: Entity, key: SubscriptionKey) -> Row:
        """Return the present attributes of a subscription; none if it has ended meanwhile."""
        found = self._directory.get(key)
        if found is None:
            return {}
        queue = entity is Entity.QUEUE
        return self._entities.queue(found) if queue else self._entities.subscription(found)

    def _wanted(self, key: SubscriptionKey, request: Request) -> Definition | AmqpError | None:
        """Return the definition of a subscription to create; None for any other request."""
        if request.verb is not Verb.CREATE:
            return None
        said = request.attributes
        if request.entity is Entity.QUEUE:
            queue = new_queue_of(request.name, self._settings.delivery.pattern_style)
            return queue if isinstance(queue, AmqpError) else Definition(queue.topic, shared=True)
        if key.queue or not key.durable:
            text = "a subscription that is made is durable; queues are made as such"
            return AmqpError(INVALID_FIELD, f"{key.id}: {text}")
        topic = topic_of(str(said["topic"]), self._settings.delivery.pattern_style)
        if isinstance(topic, AmqpError):
            return topic
        shared = said.get("shared", key.container is None) is True
        no_local = said.get("no_local") is True
        if no_local and key.container is None:
            return AmqpError(INVALID_FIELD, attach_intent.NO_LOCAL_GLOBAL)
        if no_local and "since" in said:
            text = "no-local knows what its container publishes from now on: it can't begin before"
            return AmqpError(INVALID_FIELD, text)
        selector = said.get("selector")
        if isinstance(selector, str):
            amqp_error = attach_intent.unreadable(selector, self._settings.delivery.selector)
            if amqp_error is not None:
                return amqp_error
        kept = selector if isinstance(selector, str) and selector.strip() else None
        return Definition(topic.topic, shared=shared, selector=kept, no_local=no_local)

    def _order(
        self, user: str, key: SubscriptionKey, definition: Definition | None, request: Request
    ) -> Order | AmqpError:
        operation = _OPERATIONS[request.verb]
        if operation is Operation.DELETE and request.attributes.get("force") is True:
            operation = Operation.DELETE_ANYWAY
        policy = self._policy(key, request.attributes.get("policy"))
        if isinstance(policy, AmqpError):
            return policy
        said = request.attributes
        to = place_of(said.get("since" if operation is Operation.CREATE else "to"))
        whole = said.get("from_what_is_there") is not True
        consumer = str(said.get("consumer", ""))
        return Order(operation, key, to, definition, policy, not whole, user, consumer)

    def _policy(self, key: SubscriptionKey, said: Value) -> str | AmqpError:
        """Return a policy in the form of its record. Raises InvalidRequest if it is invalid."""
        if not isinstance(said, Map):
            return ""
        table = texts(said)
        if isinstance(table, Answer):
            return AmqpError(INVALID_FIELD, table.description)
        for name, value in table.items():
            if not isinstance(value, str | int | float | bool):
                return AmqpError(INVALID_FIELD, f"policy: '{name}' is {quoted(value)}")
        text = text_of(table)
        self._directory.check_policy(key, text)
        return text

    def _held(self, existing: Subscription, request: Request) -> Answer:
        """List a part of the messages in flight to its consumers."""
        most = self._settings.management.held_count_max
        count = _whole(request, "count", most)
        if count > most:
            text = f"'count' is {count}; it may be {most} (management.held_count_max)"
            return Answer(BAD_REQUEST, f"{text}, and 'from' leads on")
        rows = held(existing, _whole(request, "from", 0), count)
        total = existing.dispatcher.in_flight
        body: Row = {"attributeNames": list[Value](HELD), "results": rows, "total": total}
        return Answer(OK, f"{len(rows)} of {total}", body)

    async def _hinted(self, existing: Subscription, said: Mapping[str, Value]) -> Answer:
        start, stop, matches = said["start"], said["stop"], said["matches"]
        assert isinstance(start, int), start  # noqa: S101 (`management.parse` has looked)
        assert isinstance(stop, int), stop  # noqa: S101
        assert isinstance(matches, bytes), matches  # noqa: S101
        part = unpacked(start, stop, matches)  # raises InvalidRequest
        done = await self._hints.take(existing, str(said["topic"]), str(said["selector"]), part)
        if isinstance(done, AmqpError):
            return refused(done)
        return Answer(OK, "its matches are known up to there", done)

    async def _redriven(self, user: str, key: SubscriptionKey, request: Request) -> Answer:
        most, rights = request.attributes.get("max"), self._access.rights
        only = request.attributes.get("subscription")
        done = await self._redrive.perform(
            key,
            dead_letters=request.entity is Entity.QUEUE,
            only=only if isinstance(only, str) else None,
            most=most if isinstance(most, int) else None,
            may=lambda topic: rights.allow(user, Verb.REDRIVE, topic),
        )
        if isinstance(done, AmqpError):
            return refused(done)
        said: Row = {"redriven": done.redriven, "stayed": done.stayed, "misfits": done.misfits}
        _events.info("subscription.redriven", subscription=key.id, by=user, **said)
        return Answer(OK, done.sentence, said)


#: Sentences of answers about done operations.
_SAID: dict[Verb, str] = {
    Verb.CREATE: "{} has been made",
    Verb.UPDATE: "{} has another policy",
    Verb.PAUSE: "{} is paused",
    Verb.RESUME: "{} goes on",
    Verb.PURGE: "{} has no backlog any more",
    Verb.REWIND: "{} is owed what lies from there on",
    Verb.SKIP: "{} is owed what lies from there on",
    Verb.CLOSE: "{}: closed",
}


def _verbs(entity: Entity) -> list[Value]:
    return [verb.value for verb in REQUESTS[entity]]


def _whole(request: Request, name: str, default: int) -> int:
    value = request.attributes.get(name, default)
    assert isinstance(value, int), value  # noqa: S101 (`management.parse` has looked)
    return value


def _plain(value: object) -> Value:
    """Return a value of a row, which never has an AMQP type of its own."""
    return value  # type: ignore[return-value]
