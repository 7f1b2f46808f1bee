"""A subscription: its identity, its definition and its events.

Identity follows the link names of real JMS clients: a durable subscription is one name in one
scope, a container or global. `pipeline.subscriptions.attach_intent` reads it from a link.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self
from urllib.parse import quote, unquote

from distributary.pipeline.codec.quoting import QUOTED_MAX, quoted
from distributary.pipeline.errors import InvalidRequest

_VOLATILE = "?volatile"


class SubscriptionEvent(StrEnum):
    """An event of a subscription, schema or transaction; each is a durable record in the log."""

    CREATED = "created"
    REDEFINED = "redefined"  #: other topic, selector or no-local: its backlog is dropped
    REWOUND = "rewound"  #: it is owed messages from another floor on, earlier or later
    PURGED = "purged"  #: its backlog was dropped; it is owed messages from now on
    PAUSED = "paused"  #: its consumers get no messages; published ones are kept for it
    RESUMED = "resumed"
    CONFIGURED = "configured"  #: it has another policy, or has become shared or exclusive
    DELETED = "deleted"
    SCHEMA = "schema"  #: of a topic, or the topics of a pattern: it has another schema
    PREPARED = "prepared"  #: a transaction waits for its transaction manager
    COMMITTED = "committed"  #: a prepared transaction ended: its work is in the same group
    ROLLED_BACK = "rolled_back"  #: a prepared transaction ended without effect
    DECIDED = "decided"  #: a transaction of several logs commits; its work here is in this group
    COMPLETED = "completed"  #: a decided transaction is committed in all logs, or they are given up


class Origin(StrEnum):
    """Creator of a subscription."""

    CLIENT = "client"  #: by using it; also of subscriptions older than this record
    OPERATOR = "operator"  #: by a request to `$management`
    GATEWAY = "gateway"  #: a queue of dead letters


@dataclass(frozen=True, slots=True)
class Made:
    """Creation of a subscription: its origin, and the user ("" if that isn't known)."""

    origin: Origin = Origin.CLIENT
    user: str = ""


#: The default for a subscription whose creation wasn't recorded.
MADE_BY_CLIENT = Made()


#: Events that begin a new incarnation: the subscription is owed messages from the event's floor on,
#: even those that were settled before.
BEGINNINGS = frozenset(
    {
        SubscriptionEvent.CREATED,
        SubscriptionEvent.REDEFINED,
        SubscriptionEvent.REWOUND,
        SubscriptionEvent.PURGED,
    }
)


#: Events after which a transaction waits for its end: it is prepared, or decided here.
OPEN_TRANSACTIONS = frozenset({SubscriptionEvent.PREPARED, SubscriptionEvent.DECIDED})
#: Events that end a transaction.
ENDS_OF_TRANSACTIONS = frozenset(
    {SubscriptionEvent.COMMITTED, SubscriptionEvent.ROLLED_BACK, SubscriptionEvent.COMPLETED}
)
#: Events of schemas and of transactions.
NOT_OF_SUBSCRIPTIONS = frozenset(
    {SubscriptionEvent.SCHEMA, *OPEN_TRANSACTIONS, *ENDS_OF_TRANSACTIONS}
)


@dataclass(frozen=True, slots=True)
class SubscriptionKey:
    """The identity of a named subscription: equal keys are one subscription.

    `container` is None for a global subscription. `durable` is part of the key: a durable and a
    non-durable subscription of one name may exist at the same time. `queue` marks the subscription
    of a queue: its name is the queue's, and it has no container.
    """

    container: str | None
    name: str
    durable: bool
    queue: bool = False

    @property
    def own(self) -> bool:
        """Whether the subscription is durable and belongs to one client id."""
        return self.durable and self.container is not None

    @property
    def id(self) -> str:
        """The id of this subscription in tables, logs and metrics, e.g. `global/dispatchers`,
        `container/billing/orders` or `queue/orders`; parts are percent-encoded, so the id is
        unambiguous."""
        if self.queue:
            scope = "queue"
        else:
            scope = "global" if self.container is None else f"container/{quote(self.container, '')}"
        return f"{scope}/{quote(self.name, '')}" + ("" if self.durable else _VOLATILE)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key with this id. Raises InvalidRequest if the text is no id."""
        durable = not text.endswith(_VOLATILE)
        match text.removesuffix(_VOLATILE).split("/"):
            case ["global", name]:
                return cls(None, unquote(name), durable)
            case ["queue", name]:
                return cls(None, unquote(name), durable, queue=True)
            case ["container", container, name]:
                return cls(unquote(container), unquote(name), durable)
        if "/" in text or len(text) > QUOTED_MAX or text in ("", "global", "queue", "container"):
            like = (
                "global/dispatchers, container/billing/orders or queue/orders; / in a name is %2F"
            )
        else:
            name = quote(text, "")
            like = f"global/{name}, container/CONTAINER/{name} or queue/{name}"
        raise InvalidRequest(f"{quoted(text)} is no subscription's id; one looks like {like}")


@dataclass(frozen=True, slots=True)
class Definition:
    """Topic of a subscription, and the messages that it selects there. Another definition means
    another subscription (JMS 2.0, section 8.3)."""

    topic: str
    shared: bool
    selector: str | None = None
    no_local: bool = False
