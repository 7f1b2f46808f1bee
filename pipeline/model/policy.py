"""Policies: an operator's decisions about a subscription or a topic that JMS leaves open.

A limit of 0 means no limit. By default only `delivery_attempts_max` has another value.
"""

from enum import StrEnum

import msgspec

from distributary.pipeline.model.address import PREFIXES, Destination, Kind, destination_of
from distributary.pipeline.model.subscription import Origin
from distributary.pipeline.model.topic_pattern import PatternStyle, published


class Overflow(StrEnum):
    """Consequence of a full backlog."""

    REFUSE = "refuse"  #: publishers are refused: amqp:resource-limit-exceeded
    DROP_OLDEST = "drop_oldest"
    DEAD_LETTER = "dead_letter"  #: the oldest go to the dead letters


class Storage(StrEnum):
    """Messages of a topic that aren't written to the log, as no subscription that outlasts the
    process wants them. Each value includes the messages of the values before it."""

    LOG = "log"  #: none: all messages are written
    TEMPORARY = "temporary"  #: non-persistent messages for temporary destinations
    NON_PERSISTENT = "non_persistent"  #: non-persistent messages
    MEMORY = "memory"  #: persistent ones, too

    def streams(self, *, temporary: bool) -> bool:
        """Whether messages of a topic, or of a temporary destination, may stay in memory."""
        return self is not Storage.LOG and (temporary or self is not Storage.TEMPORARY)

    def skips(self, *, persistent: bool) -> bool:
        """Whether messages that may stay in memory aren't written to the log."""
        return self is Storage.MEMORY or not (persistent or self is Storage.LOG)


class Redefine(StrEnum):
    """Consequence of an attach to a durable subscription without consumers, with another topic,
    selector or no-local."""

    AUTO = "auto"  #: `refuse` if an operator created it, `replace` if a client did
    REFUSE = "refuse"  #: the consumer is refused, the subscription stays
    #: A consumer without selector and no-local gets the existing ones; any other: `refuse`.
    INHERIT = "inherit"
    REPLACE = "replace"  #: its backlog is dropped, and it begins anew (JMS)

    def of(self, origin: Origin) -> "Redefine":
        """Return the rule for a subscription of this origin: `AUTO` is resolved."""
        if self is not Redefine.AUTO:
            return self
        return Redefine.REFUSE if origin is Origin.OPERATOR else Redefine.REPLACE


class Lifetime(StrEnum):
    """The endpoint of the last consumer with whose end its subscription ends, or its expiry begins;
    the values are AMQP's expiry policies (part 3, section 3.5.6)."""

    LINK_DETACH = "link-detach"
    SESSION_END = "session-end"
    CONNECTION_CLOSE = "connection-close"
    NEVER = "never"


class Expiry(msgspec.Struct, frozen=True):
    """A subscription ends `seconds` after the end of `lifetime`, unless a consumer resumes it."""

    lifetime: Lifetime = Lifetime.NEVER
    seconds: int = 0

    @property
    def with_link(self) -> bool:
        """Whether the subscription ends at once with its last link."""
        return self.lifetime is Lifetime.LINK_DETACH and not self.seconds


NO_EXPIRY = Expiry()


class Backlog(msgspec.Struct, frozen=True):
    """The limits of a backlog; times in milliseconds."""

    messages_max: int = 0
    bytes_max: int = 0
    age_ms_max: int = 0
    overflow: Overflow = Overflow.REFUSE

    @property
    def limits(self) -> bool:
        """Whether there is any limit."""
        return bool(self.messages_max or self.bytes_max or self.age_ms_max)


class Policy(msgspec.Struct, frozen=True):
    """Delivery policy of one subscription."""

    #: Failed attempts until a message is given up.
    delivery_attempts_max: int = 10
    #: Milliseconds until a message that failed is delivered again: `delay * multiplier ** (n - 1)`
    #: after the n-th failure, at most `redelivery_delay_ms_max`, then up to `jitter` (0 to 1) of
    #: that more or less, by a hash of its sequence and n.
    redelivery_delay_ms: int = 0
    redelivery_multiplier: float = 1.0
    redelivery_delay_ms_max: int = 60_000
    redelivery_jitter: float = 0.0
    #: Whether a delivery whose consumer was lost (its connection, session or link ended by an
    #: error) has failed. If not, the message is only delivered again, marked as redelivered.
    lost_consumer_counts: bool = False
    #: Whether a copy is kept of a message that is given up (rejected, undeliverable, too many
    #: failures), in the queue `DLQ.<subscription>` or the one of `dead_letter_address`.
    dead_letter: bool = True
    dead_letter_address: str = ""
    #: Whether a copy of an expired message is kept, too.
    dead_letter_expired: bool = False
    consumers_max: int = 0
    #: One consumer gets all messages; when it detaches, the next one does.
    single_active: bool = False
    #: Messages with one group-id go to one consumer.
    message_groups: bool = True
    #: Milliseconds that a consumer may hold a delivery; then the attempt has failed.
    lock_ms: int = 0
    redefine: Redefine = Redefine.AUTO
    #: Whether a consumer may attach to a durable subscription without consumers as shared if it is
    #: exclusive, or the other way round, and so change it.
    sharing_may_change: bool = False
    #: Whether a client's first use of a durable subscription or queue creates it.
    create_on_use: bool = True
    #: When a durable subscription ends by itself: `expiry_seconds` after the end of `expiry`.
    #: Queues don't.
    expiry: Lifetime = Lifetime.NEVER
    expiry_seconds: int = 0
    #: Bytes of one page of older messages, of which two are in memory at most; 0: the value of
    #: its topic's policy, else the setting.
    page_bytes: int = 0
    backlog: Backlog = Backlog()

    @property
    def ends(self) -> Expiry:
        """When a durable subscription ends by itself."""
        return Expiry(self.expiry, self.expiry_seconds)


class Route(msgspec.Struct, frozen=True):
    """Messages also go to this destination: those that the selector selects, all if it is None."""

    to: Destination
    selector: str | None = None

    def __str__(self) -> str:
        """Return the route as policies write it."""
        address = PREFIXES[self.to.kind] + self.to.name
        return address if self.selector is None else f"{address} where {self.selector}"


class TopicPolicy(msgspec.Struct, frozen=True):
    """Policy of a topic or queue, for all messages published to it.

    A message whose id was seen among the last `duplicates_messages` of its topic, and not longer
    than `duplicates_ms` ago, is accepted and not stored; both 0: duplicates aren't looked for.
    """

    duplicates_messages: int = 0
    duplicates_ms: int = 0
    #: Where copies of its messages go, in one group with them. A copy isn't routed again.
    routes: tuple[Route, ...] = ()
    #: Whether a client's first use of a topic or queue creates it.
    create_on_use: bool = True
    #: Bytes of one page of older messages for each of its subscriptions; 0: the setting.
    page_bytes: int = 0
    storage: Storage = Storage.TEMPORARY
    #: The queue of messages that its schema doesn't allow (`validate` dead-letter). Empty: for a
    #: topic `DLQ.topic/NAME`, for a queue its usual queue of dead letters.
    dead_letter_address: str = ""
    #: Limits of each of its subscriptions that has no limit of its own.
    backlog: Backlog = Backlog()

    @property
    def seeks_duplicates(self) -> bool:
        return bool(self.duplicates_messages or self.duplicates_ms)


DEFAULT = Policy()
DEFAULT_TOPIC = TopicPolicy()


def unreachable(policy: Policy | TopicPolicy, style: PatternStyle) -> str:
    """Return the key that sends messages to a name with wildcards, and why it can't; empty if there
    is none. No link could consume them."""
    dead = policy.dead_letter_address
    named = {"dead_letter_address": [destination_of(dead, None, Kind.QUEUE)] if dead else []}
    if isinstance(policy, TopicPolicy):
        named["routes"] = [route.to for route in policy.routes]
    for key, destinations in named.items():
        for one in destinations:
            if isinstance(one, Destination) and (amqp_error := published(one, style)):
                return f"{key}: {amqp_error.description}"
    return ""
