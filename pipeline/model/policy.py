"""Policies: what an operator decides about a subscription or a topic, and JMS leaves open.

Every field has a default that limits nothing. 0 means: no such limit.
"""

from enum import StrEnum

import msgspec

from distributary.pipeline.model.address import PREFIXES, Destination
from distributary.pipeline.model.subscription import Origin


class Overflow(StrEnum):
    """What happens when a backlog is full."""

    REFUSE = "refuse"  #: publishers are refused: amqp:resource-limit-exceeded
    DROP_OLDEST = "drop_oldest"
    DEAD_LETTER = "dead_letter"  #: the oldest go to the dead letters


class Storage(StrEnum):
    """What of a topic's messages isn't written to the log, as no subscription that outlasts the
    process wants it. Each word takes in what the ones before it do."""

    LOG = "log"  #: nothing: all is written
    TEMPORARY = "temporary"  #: non-persistent messages for temporary destinations
    NON_PERSISTENT = "non_persistent"  #: non-persistent messages
    MEMORY = "memory"  #: persistent ones, too

    def streams(self, *, temporary: bool) -> bool:
        """Whether messages of a topic, or of a temporary destination, may stay in memory."""
        return self is not Storage.LOG and (temporary or self is not Storage.TEMPORARY)

    def skips(self, *, persistent: bool) -> bool:
        """Whether messages that may stay in memory do."""
        return self is Storage.MEMORY or not (persistent or self is Storage.LOG)


class Redefine(StrEnum):
    """What happens when a consumer attaches to a durable subscription without consumers, and
    wants another topic, selector or no-local."""

    AUTO = "auto"  #: `refuse` where an operator has made it, `replace` where a client has
    REFUSE = "refuse"  #: the consumer is refused, the subscription stays
    INHERIT = "inherit"  #: who says neither selector nor no-local gets what is there; else `refuse`
    REPLACE = "replace"  #: what it was owed is dropped, and it begins anew (JMS)

    def of(self, origin: Origin) -> "Redefine":
        """What holds for a subscription that was made so."""
        if self is not Redefine.AUTO:
            return self
        return Redefine.REFUSE if origin is Origin.OPERATOR else Redefine.REPLACE


class Lifetime(StrEnum):
    """What has to end, of the last consumer, before a subscription ends by itself; the words are
    AMQP's expiry policies (part 3, section 3.5.6)."""

    LINK_DETACH = "link-detach"
    SESSION_END = "session-end"
    CONNECTION_CLOSE = "connection-close"
    NEVER = "never"


class Expiry(msgspec.Struct, frozen=True):
    """A subscription ends so many seconds after this, unless a consumer resumes it meanwhile."""

    lifetime: Lifetime = Lifetime.NEVER
    seconds: int = 0

    @property
    def with_link(self) -> bool:
        """Whether the end of the last link is the end."""
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
    """How one subscription delivers."""

    #: Failed attempts until a message is given up.
    delivery_attempts_max: int = 10
    #: Milliseconds until a message that failed is delivered again: `delay * multiplier ** (n - 1)`
    #: after the n-th failure, at most `redelivery_delay_ms_max`, then changed by up to `jitter`
    #: (0 to 1) of itself, up or down, by a hash of its sequence and n.
    redelivery_delay_ms: int = 0
    redelivery_multiplier: float = 1.0
    redelivery_delay_ms_max: int = 60_000
    redelivery_jitter: float = 0.0
    #: Whether a delivery whose consumer was lost (its connection, session or link ended by an
    #: error) has failed. If not, the message comes again marked as redelivered, and that is all.
    lost_consumer_counts: bool = False
    #: Whether what is given up (rejected, undeliverable, too many failures) is kept as a copy, in
    #: the queue `DLQ.<subscription>` or in that of `dead_letter_address`.
    dead_letter: bool = True
    dead_letter_address: str = ""
    #: Whether what expired is kept so, too.
    dead_letter_expired: bool = False
    consumers_max: int = 0
    #: One consumer gets all, the next one when it goes.
    single_active: bool = False
    #: Messages with one group-id go to one consumer.
    message_groups: bool = True
    #: Milliseconds that a consumer may hold a delivery; then it has failed and goes to the next.
    lock_ms: int = 0
    redefine: Redefine = Redefine.AUTO
    #: Whether a durable subscription without consumers becomes shared, or exclusive, by a consumer
    #: that wants it so.
    sharing_may_change: bool = False
    #: Whether a client's first use of a durable subscription or queue creates it.
    create_on_use: bool = True
    #: When a durable subscription ends by itself, so many seconds after the word. Queues don't.
    expiry: Lifetime = Lifetime.NEVER
    expiry_seconds: int = 0
    #: Bytes of one page of older messages, of which two are in memory at most; 0: as its topic's
    #: policy says, else as for all.
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
        """As it is written."""
        address = PREFIXES[self.to.kind] + self.to.name
        return address if self.selector is None else f"{address} where {self.selector}"


class TopicPolicy(msgspec.Struct, frozen=True):
    """What holds for all that is published to a topic or queue.

    A message whose id was seen among the last `duplicates_messages` of its topic, and not longer
    than `duplicates_ms` ago, is accepted and not stored; both 0: duplicates aren't looked for.
    """

    duplicates_messages: int = 0
    duplicates_ms: int = 0
    #: Where copies of its messages go, in one group with them. A copy isn't routed again.
    routes: tuple[Route, ...] = ()
    #: Whether a client's first use of a topic or queue creates it.
    create_on_use: bool = True
    #: Bytes of one page of older messages for each of its subscriptions; 0: as for all.
    page_bytes: int = 0
    storage: Storage = Storage.TEMPORARY
    #: The queue of what its schema doesn't allow (`validate` dead-letter). Empty: of a topic
    #: `DLQ.topic/NAME`, of a queue that of what the queue gives up.
    dead_letter_address: str = ""
    #: What holds for each of its subscriptions that has no limit of its own.
    backlog: Backlog = Backlog()

    @property
    def seeks_duplicates(self) -> bool:
        return bool(self.duplicates_messages or self.duplicates_ms)


DEFAULT = Policy()
DEFAULT_TOPIC = TopicPolicy()
