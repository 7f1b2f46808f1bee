"""The work of a prepared transaction, which its commit will do: in memory and as the bytes of its
record.

Rule: the bytes are enough to commit or to roll back after any restart. Outcomes in subscriptions
      that aren't durable end with the process, and aren't in the bytes.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence

import msgspec

from distributary.ingest.commit.pending_group import Former
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.publish.intake import Posted
from distributary.ingest.publish.relay import Kept, RoutedRun
from distributary.pipeline.amqp.dead_letter import MisfitInfo
from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.address import Destination, Kind
from distributary.pipeline.model.message import PublishBatch
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.transitions import DeliveryState
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.transactions.prepared_transactions import Facts
from distributary.pipeline.transactions.transaction import EACH_BYTES, RUN_BYTES

#: Formats of the bytes; an older reader refuses the newer one: it would commit work that decides
#: for other logs, and not tell them.
VERSION, DECIDES = 2, 3


class HeldRun(msgspec.Struct, frozen=True, eq=False):
    """Deliveries of a subscription that were given an outcome: they are in flight to no consumer,
    and belong to the transaction. `began` is the group in which the subscription's incarnation
    began, `name` the name of their consumer in the log. `buckets`: of their message groups, which
    wait for them after a restart, too."""

    subscription: Subscription
    began: int
    name: str
    run: Run
    said: DeliveryState
    delivered_at: int
    buckets: Sequence[int] = ()


class PreparedWork(msgspec.Struct, frozen=True, eq=False):
    """All work of a prepared transaction. Dispatchers know it by the number `holder`, below 0;
    `publisher` has sent the messages. `topics`: its topics when it was prepared, even if
    subscriptions have ended since. Its end decides the transaction of several logs with the id
    `decides`, of which these other `logs` have prepared their parts."""

    holder: int
    publisher: Former
    posted: list[Posted]
    held: list[HeldRun]
    topics: tuple[str, ...]
    decides: str = ""
    logs: tuple[str, ...] = ()

    def facts(self, user: str, at: int, size: int) -> Facts:
        """Return the facts that requests show."""
        messages = sum(one.run.count for one in self.posted)
        deliveries = sum(len(one.run) for one in self.held)
        return Facts(user, at, self.topics, messages, deliveries, size)

    @property
    def unwritten_bytes(self) -> int:
        """Return the bytes of memory that outcomes take which aren't in the record."""
        unwritten = [one for one in self.held if not one.subscription.durable]
        return sum(RUN_BYTES + EACH_BYTES * len(one.run) for one in unwritten)


def topics_of(posted: Iterable[Posted], held: Iterable[HeldRun]) -> tuple[str, ...]:
    """Return the topics of such work, sorted."""
    topics = {one.run.topic for one in posted}
    return tuple(sorted(topics | {one.subscription.definition.topic for one in held}))


class _KeptRow(msgspec.Struct, array_like=True, frozen=True):
    queue: tuple[str, str]
    topic: str
    sentence: str
    at: int


class _PostedRow(msgspec.Struct, array_like=True, frozen=True):
    """A `Posted`; a destination is its kind and its name."""

    topic: str
    count: int
    blob: bytes
    lengths: bytes
    durable: bytes
    priority: bytes
    ttl: bytes
    expires_at: bytes
    deliver_at: bytes
    start: int
    queue: tuple[str, str] | None
    ids: list[bytes]
    unrouted: dict[str, dict[int, _KeptRow]]


class _HeldRow(msgspec.Struct, array_like=True, frozen=True):
    """A HeldRun; `run` is a range as (first, step, count), or int64 numbers, little-endian;
    `buckets` are int16 numbers, which an older reader leaves out."""

    subscription: str
    began: int
    name: str
    run: tuple[int, int, int] | bytes
    outcome: Outcome
    failed: bool
    undeliverable: bool
    delivered_at: int
    buckets: bytes = b""


class _WorkRow(msgspec.Struct, array_like=True, frozen=True):
    version: int
    container: str
    posted: list[_PostedRow]
    held: list[_HeldRow]
    topics: tuple[str, ...]
    decides: str = ""
    logs: tuple[str, ...] = ()


class _Version(msgspec.Struct, array_like=True, frozen=True):
    version: int


_ENCODER = msgspec.msgpack.Encoder()
_VERSION = msgspec.msgpack.Decoder(_Version)
_DECODER = msgspec.msgpack.Decoder(_WorkRow)


def encoded(work: PreparedWork) -> bytes:
    """Return the record's bytes."""
    posted = [_posted_row(one) for one in work.posted]
    held = [_held_row(one) for one in work.held if one.subscription.durable]
    version, container = DECIDES if work.decides else VERSION, work.publisher.container
    row = _WorkRow(version, container, posted, held, work.topics, work.decides, work.logs)
    return _ENCODER.encode(row)


def decoded(
    data: bytes, holder: int, of: Callable[[str, int], Subscription | None]
) -> PreparedWork:
    """Return the work of these bytes. `of` gives the subscription of an id, if it is still in the
    incarnation that began in this group: outcomes for another incarnation have no effect.

    Raises StoreError for bytes of a later version of the program.
    """
    try:
        version = _VERSION.decode(data).version
        if version not in (VERSION, DECIDES):
            raise StoreError(
                f"a prepared transaction is of format {version}, this program knows {VERSION} and "
                f"{DECIDES}: another version wrote it. Start that version"
            )
        row = _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise StoreError(f"a prepared transaction can't be read: {error}") from error
    held = [
        HeldRun(
            subscription,
            one.began,
            one.name,
            _run(one.run),
            DeliveryState(one.outcome, one.failed, one.undeliverable),
            one.delivered_at,
            array("h", one.buckets),
        )
        for one in row.held
        if (subscription := of(one.subscription, one.began)) is not None
    ]
    posted = [*map(_posted, row.posted)]
    former = Former(row.container)
    return PreparedWork(holder, former, posted, held, row.topics, row.decides, row.logs)


def _posted_row(one: Posted) -> _PostedRow:
    run, queue = one.run, one.routed.queue
    columns = (run.blob, run.lengths, run.durable, run.priority, run.ttl)
    blob, lengths, durable, priority, ttl = map(bytes, columns)
    return _PostedRow(
        run.topic,
        run.count,
        blob,
        lengths,
        durable,
        priority,
        ttl,
        bytes(run.expires_at),
        bytes(run.deliver_at),
        one.routed.start,
        None if queue is None else (queue.kind.value, queue.name),
        one.ids,
        {topic: dict(_kept_rows(places.items())) for topic, places in one.unrouted.items()},
    )


def _kept_rows(places: Iterable[tuple[int, Kept]]) -> Iterable[tuple[int, _KeptRow]]:
    for place, kept in places:
        queue, info = kept.queue, kept.info
        at = (queue.kind.value, queue.name)
        yield place, _KeptRow(at, info.topic, info.sentence, info.at)


def _posted(row: _PostedRow) -> Posted:
    run = PublishBatch(
        row.topic,
        row.count,
        row.blob,
        row.lengths,
        row.durable,
        row.priority,
        row.ttl,
        row.expires_at,
        row.deliver_at,
    )
    queue = None if row.queue is None else _destination(row.queue)
    unrouted = {
        topic: {
            place: Kept(_destination(one.queue), MisfitInfo(one.topic, one.sentence, one.at))
            for place, one in places.items()
        }
        for topic, places in row.unrouted.items()
    }
    return Posted(RoutedRun(run, row.start, queue), row.ids, unrouted)


def _destination(said: tuple[str, str]) -> Destination:
    kind, name = said
    return Destination(Kind(kind), name)


def _held_row(one: HeldRun) -> _HeldRow:
    run, said = one.run, one.said
    numbers: tuple[int, int, int] | bytes = (
        (run.start, run.step, len(run)) if isinstance(run, range) else run.tobytes()
    )
    return _HeldRow(
        one.subscription.id,
        one.began,
        one.name,
        numbers,
        said.outcome,
        said.failed,
        said.undeliverable,
        one.delivered_at,
        array("h", one.buckets).tobytes(),
    )


def _run(numbers: tuple[int, int, int] | bytes) -> Run:
    if isinstance(numbers, bytes):
        return array("q", numbers)
    first, step, count = numbers
    return range(first, first + step * count, step)
