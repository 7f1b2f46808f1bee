"""Attributes of the managed entities: subscriptions, queues, topics, the gateway.

Everything is read from memory. A topic is stored nowhere: it exists while it has producers or
subscriptions.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from msgspec.structs import replace

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.publish.no_local import NoLocal
from distributary.ingest.schemas.schema_directory import SchemaDirectory
from distributary.ingest.schemas.schema_requests import schema_row
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.codec.amqp_types import Map, Value
from distributary.pipeline.codec.amqp_writer import Writable
from distributary.pipeline.management.listings import Name
from distributary.pipeline.management.management_messages import Entity
from distributary.pipeline.model.address import Destination, Kind, destination_of, kind_of_topic
from distributary.pipeline.model.amqp_error import INVALID_FIELD, AmqpError
from distributary.pipeline.model.policy import Backlog, Policy, TopicPolicy
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.model.topic_pattern import PatternStyle, consumed
from distributary.pipeline.schemas.schema_choice import stand_in
from distributary.pipeline.subscriptions.policy_table import of_text
from distributary.pipeline.subscriptions.registry import key_of_queue
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

#: The attributes of one entity.
Row: TypeAlias = dict[str, Writable]
#: Whether the asking user may see this subscription.
MaySee: TypeAlias = Callable[[Subscription], bool]


class Users(Protocol):
    """The gateway's facts that entities need: its connections, producers and errors."""

    @property
    def connections(self) -> int:
        """The number of connections."""

    @property
    def internal_errors(self) -> int:
        """Bugs that have ended one peer each, since the start."""

    def produced(self) -> Counter[str]:
        """Return the number of sending links of each topic or queue that has any."""


class Entities:
    """Reads the attributes of entities."""

    def __init__(
        self,
        parts: MessageParts,
        directory: SubscriptionDirectory,
        schemas: SchemaDirectory,
        users: Users,
        name: str,
    ) -> None:
        """`name`: the log's name."""
        self._schemas, self._name = schemas, name
        self._log, self._table = parts.log, parts.store.table
        self._directory, self._users = directory, users
        #: Returns the backlog of a subscription.
        self._backlog = parts.backlogs.counters.shown
        #: Returns what happens at its limit.
        self._overflow = parts.backlogs.overflow.of

    @property
    def _no_local(self) -> NoLocal:
        return self._directory.no_local

    # Lists.

    def names(self, entity: Entity) -> Iterable[Name]:
        """Return the names of all entities of a type, ascending."""
        found: list[Name]
        match entity:
            case Entity.SUBSCRIPTION:
                found = [(_id(one), one.definition.topic, one.key) for one in self._directory.all()]
            case Entity.QUEUE:
                found = [
                    (one.key.name, one.definition.topic, one.key)
                    for one in self._directory.all()
                    if one.key is not None and one.key.queue and one.durable
                ]
            case Entity.TOPIC:
                found = [(topic, topic, None) for topic in self._topics()]
            case Entity.SCHEMA:
                found = [(name, stand_in(name), None) for name in self._schemas.names()]
            case Entity.NODE:
                found = [("self", "", None)]
            case Entity.TRANSACTION:
                raise AssertionError("those are listed by `TransactionRequests`")
        return sorted(found, key=lambda one: one[0])

    def _topics(self) -> set[str]:
        used = {*self._users.produced(), *self._no_local.topics()}
        return {topic for topic in used if kind_of_topic(topic) is Kind.TOPIC}

    def rows(
        self, entity: Entity, names: Iterable[Name], may_see: MaySee, *, policies: bool
    ) -> list[Row]:
        """Return the attributes of the named entities and their log, with policies only if wanted;
        entities that don't exist any more are left out."""
        produced = self._users.produced()
        found = (self._row(entity, name, produced, may_see, policies=policies) for name in names)
        return [{**row, "log": self._name} for row in found if row is not None]

    def _row(
        self,
        entity: Entity,
        name: Name,
        produced: Counter[str],
        may_see: MaySee,
        *,
        policies: bool,
    ) -> Row | None:
        found = None if name[2] is None else self._directory.get(name[2])
        match entity:
            case Entity.SUBSCRIPTION:
                return None if found is None else self.subscription(found, policies=policies)
            case Entity.QUEUE:
                return None if found is None else self.queue(found, produced, policies=policies)
            case Entity.TOPIC:
                return self.topic(name[0], produced, may_see)
            case Entity.SCHEMA:
                schema = self._schemas.get(name[0])
                return None if schema is None or schema.current is None else {**schema_row(schema)}
            case Entity.NODE:
                return self.node()
            case Entity.TRANSACTION:
                raise AssertionError("those are listed by `TransactionRequests`")

    # Single entities.

    def subscription(self, subscription: Subscription, *, policies: bool = True) -> Row:
        """Return the attributes of a named subscription; policies that aren't wanted are null."""
        key, definition = subscription.key, subscription.definition
        assert key is not None  # noqa: S101
        dispatcher, backlog = subscription.dispatcher, self._backlog(subscription)
        return {
            "name": key.id,
            "topic": definition.topic,
            "durable": key.durable,
            "shared": definition.shared,
            "selector": definition.selector,
            "no_local": definition.no_local,
            "origin": self._directory.made(key).origin.value,
            "created_by": self._directory.made(key).user or None,
            "paused": self._directory.paused(key),
            "consumers": len(subscription.consumers),
            "in_flight": dispatcher.in_flight,
            "outstanding": dispatcher.outstanding + subscription.copying,
            "floor": dispatcher.floor,
            "position": dispatcher.position,
            "head": subscription.head(self._log.recent.head),
            "backlog": backlog.messages,
            "backlog_bytes": backlog.bytes,
            "unreadable": subscription.unreadable or None,
            "policy": _map(of_text(self._directory.own_policy(key), key.id)) if policies else None,
            "policy_in_force": _written(self._in_force(subscription, key)) if policies else None,
            "policy_from": self._sources(key, definition.topic) if policies else None,
        }

    def _in_force(self, subscription: Subscription, key: SubscriptionKey) -> Policy:
        """Return the policy that holds: a full queue of dead letters, or of a circle, refuses."""
        policy = self._directory.policy(key)
        overflow = self._overflow(subscription)
        return replace(policy, backlog=replace(policy.backlog, overflow=overflow))

    def _sources(self, key: SubscriptionKey, topic: str) -> Map:
        return Map(tuple(self._directory.policy_sources(key, topic).items()))

    def _topic_sources(self, topic: str) -> Map:
        return Map(tuple(self._directory.topic_policy_sources(topic).items()))

    def queue(
        self,
        subscription: Subscription,
        produced: Counter[str] | None = None,
        *,
        policies: bool = True,
    ) -> Row:
        """Return the attributes of a queue: those of its subscription, and its producers."""
        key = subscription.key
        assert key is not None  # noqa: S101
        topic = subscription.definition.topic
        return {
            **self.subscription(subscription, policies=policies),
            "name": key.name,
            "address": topic,
            "subscription": key.id,
            "producers": (self._users.produced() if produced is None else produced)[topic],
            "topic_policy": _written(self._directory.topic_policy(topic)) if policies else None,
            "topic_policy_from": self._topic_sources(topic) if policies else None,
        }

    def topic(self, topic: str, produced: Counter[str] | None, may_see: MaySee) -> Row:
        """Return the attributes of a topic, used or not, with the subscriptions that the asking
        user may see."""
        subscriptions = list(self._no_local.of_topic(topic))
        ids = sorted(_id(one) for one in subscriptions if one.key is not None and may_see(one))
        return {
            "name": topic,
            "address": topic,
            "producers": (self._users.produced() if produced is None else produced)[topic],
            "consumers": sum(len(one.consumers) for one in subscriptions),
            "subscriptions": list[Value](ids),
            "topic_policy": _written(self._directory.topic_policy(topic)),
            "topic_policy_from": self._topic_sources(topic),
            "schema": self._schema(topic),
        }

    def _schema(self, topic: str) -> Map | None:
        """Return the schema of a topic's messages, by the topic's name or a pattern."""
        found = self._schemas.of_topic(topic)
        if found is None or found.current is None:
            return None
        return Map(tuple(schema_row(found).items()))

    def node(self) -> Row:
        """Return the attributes of the gateway and its log."""
        return {
            "name": "self",
            "log_name": self._name,
            "connections": self._users.connections,
            "internal_errors": self._users.internal_errors,
            "subscriptions": sum(1 for _ in self._directory.all()),
            "unreadable": sum(1 for one in self._directory.all() if one.unreadable),
            "first_sequence": self._table.first_sequence,
            "head": self._log.recent.head,
            "committed": self._table.sequence_version,
            "memory_bytes": self._log.recent.bytes,
            "table": table_map(self._table),
        }

    def place(self) -> Row:
        """Return the address of the log and the identity of its table, for clients that read
        messages there."""
        return {"log": self._table.uri, "table": table_map(self._table)}


def table_map(table: TopicLog) -> Map:
    """Return the identity of the table, for clients that read it."""
    return Map(tuple(table.identity.body().items()))


def key_of(entity: Entity, name: str) -> SubscriptionKey | AmqpError:
    """Return the key of the subscription with this name, or of the queue with this name. Raises
    InvalidRequest for a text that is no id."""
    if entity is not Entity.QUEUE:
        return SubscriptionKey.parse(name)
    queue = queue_of(name)
    return queue if isinstance(queue, AmqpError) else key_of_queue(queue)


def queue_of(name: str) -> Destination | AmqpError:
    """Return the queue of this name or address."""
    found = destination_of(name, None, Kind.QUEUE)
    if isinstance(found, Destination) and found.kind is not Kind.QUEUE:
        return AmqpError(INVALID_FIELD, f"'{name}' is a {found.kind}, no queue")
    return found


def new_queue_of(name: str, style: PatternStyle) -> Destination | AmqpError:
    """Return the queue to make of this name or address. Links can use its name: it isn't one with
    wildcards."""
    found = queue_of(name)
    return found if isinstance(found, AmqpError) else consumed(found, style)


def topic_of(name: str, style: PatternStyle) -> Destination | AmqpError:
    """Return the topic, or the pattern of topics, of this name or address."""
    found = destination_of(name, None, Kind.TOPIC)
    if isinstance(found, Destination) and found.kind is not Kind.TOPIC:
        return AmqpError(INVALID_FIELD, f"'{name}' is a {found.kind}, no topic")
    return found if isinstance(found, AmqpError) else consumed(found, style)


def _id(subscription: Subscription) -> str:
    assert subscription.key is not None  # noqa: S101
    return subscription.key.id


def _written(policy: Policy | TopicPolicy | Backlog, prefix: str = "") -> Map:
    """Return a policy with the keys of its written form."""
    pairs: list[tuple[Value, Value]] = []
    for name in policy.__struct_fields__:
        value = getattr(policy, name)
        if isinstance(value, Backlog):
            pairs += _written(value, "backlog_").pairs
        elif isinstance(value, tuple):
            pairs.append((prefix + name, [str(route) for route in value]))
        else:
            pairs.append((prefix + name, value))
    return Map(tuple(pairs))


def _map(table: object) -> Map:
    """Return a table of JSON as a map."""
    assert isinstance(table, dict)  # noqa: S101
    return Map(tuple(table.items()))
