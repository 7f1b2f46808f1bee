"""A group as bytes: the unit that one fsync of the journal makes durable.

    header     64 bytes, see HEADER; the two checksums are filled in by the journal
    records    msgpack of Records: topic names, message runs, settlements, subscription events,
               and two columns that few groups have: expiry and delivery times
    lengths    uint32 for each message
    durable    uint8 for each message
    priority   uint8 for each message
    ttl        uint32 for each message
    blobs      the messages' bytes, joined

Columns are joined over the group's runs, in order. Every section begins at a multiple of 8 bytes
and a frame ends at a multiple of 64, so arrays are aligned in any buffer that the frame is read
into. Numbers are little-endian. Nothing here loops over messages.
"""

import struct
from collections.abc import Sequence
from itertools import repeat

import msgspec

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.message import (
    Group,
    LogEvent,
    PublishBatch,
    SchemaRecord,
    Settlement,
    TransactionRecord,
)
from distributary.pipeline.sequences.sequence_set import Run

#: The format's version; it changes when a reader of the former one would misread a frame.
VERSION = 1
MAGIC = b"DGRP"
#: magic, version, group, first sequence, written_at (us), messages, bytes of the records,
#: bytes of the body without padding, reserved, crc of the body, crc of the header.
HEADER = struct.Struct("<4sIQQqIIQQII")
HEADER_BYTES = 64
FRAME_ALIGN = 64
SECTION_ALIGN = 8

#: Bytes of one frame: a commit takes in whole ones, and Arrow counts a column's bytes with 31 bits.
FRAME_BYTES_MAX = 1 << 30
#: Bytes that a message has in the columns: length, durable, priority, ttl.
_COLUMN_WIDTHS = (4, 1, 1, 4)
#: Bytes of a message in `expires_at` and in `deliver_at`.
TIME_BYTES = 8
#: Paddings of 0, 1, 2, ... zero bytes.
_PADDINGS = tuple(bytes(size) for size in range(FRAME_ALIGN))


class SettlementRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A Settlement in a frame; each triple of `sequences` is (first, step, count)."""

    subscription: str
    topic: str
    consumer: str
    outcome: str
    final: bool
    delivery_count: int
    delivered_at: int
    settled_at: int
    floor: int
    sequences: list[tuple[int, int, int]]


class SubscriptionRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A SubscriptionRecord in a frame, with its key as an id; or a SchemaRecord, whose text is the
    `policy`, or a TransactionRecord."""

    event: str
    subscription: str
    topic: str
    shared: bool
    selector: str | None
    no_local: bool
    floor: int
    paused: bool = False
    policy: str = ""
    origin: str | None = None
    created_by: str | None = None
    dropped: int | None = None
    by: str | None = None
    work: bytes | None = None


class Records(msgspec.Struct, array_like=True, frozen=True):
    """The part of a group that isn't in columns. A run is (index into `topics`, count of messages).

    `expires_at` and `deliver_at` are columns like those of PublishBatch, over the whole group; they
    are here as few groups have them. Frames of the first format lack them: None.
    """

    topics: list[str]
    runs: list[tuple[int, int]]
    settlements: list[SettlementRow]
    subscriptions: list[SubscriptionRow]
    expires_at: bytes | None = None
    deliver_at: bytes | None = None


class FrameHeader(msgspec.Struct, frozen=True):
    """The fixed part of a frame, checked for shape but not for its checksums. `size` is the bytes
    of the whole frame in the journal, padding included."""

    group: int
    first_sequence: int
    written_at: int
    count: int
    records_bytes: int
    body_bytes: int
    body_crc: int
    size: int


class DecodedFrame(msgspec.Struct, frozen=True, eq=False):
    """A group read back. The columns and the blob are views of the frame, not copies."""

    group: int
    first_sequence: int
    written_at: int
    count: int
    records: Records
    lengths: memoryview
    durable: memoryview
    priority: memoryview
    ttl: memoryview
    blob: memoryview


_RECORDS_ENCODER = msgspec.msgpack.Encoder()
_RECORDS_DECODER = msgspec.msgpack.Decoder(Records)


def encode(group: Group) -> list[Bytes]:
    """Return the parts of the group's frame, in order, for `Journal.append`.

    The blobs are the runs' own buffers: the caller may not change them before the append is done.
    Raises StoreError for a group that is too big to be committed.
    """
    runs = group.messages
    records = _RECORDS_ENCODER.encode(_records(group))
    sections: list[Bytes] = [records, _PADDINGS[-len(records) % SECTION_ALIGN]]
    if len(runs) == 1:  # the usual case
        [run] = runs
        count, blob_bytes, blobs = run.count, len(run.blob), [run.blob]
        fours, ones = _PADDINGS[-4 * count % SECTION_ALIGN], _PADDINGS[-count % SECTION_ALIGN]
        sections += (run.lengths, fours, run.durable, ones, run.priority, ones, run.ttl, fours)
    else:
        count = sum([run.count for run in runs])
        blob_bytes = sum([len(run.blob) for run in runs])
        blobs = [run.blob for run in runs]
        if count:
            for width, column in zip(_COLUMN_WIDTHS, _columns(group), strict=True):
                sections += column
                sections.append(_PADDINGS[-width * count % SECTION_ALIGN])
    meta = b"".join(sections)
    body_bytes = len(meta) + blob_bytes
    if body_bytes > FRAME_BYTES_MAX:
        raise StoreError(
            f"group {group.number} has {body_bytes} bytes, a frame {FRAME_BYTES_MAX} at most"
        )
    header = HEADER.pack(
        MAGIC,
        VERSION,
        group.number,
        group.first_sequence,
        group.written_at,
        count,
        len(records),
        body_bytes,
        0,
        0,
        0,
    )
    return [header, meta, *blobs, _PADDINGS[-(HEADER_BYTES + body_bytes) % FRAME_ALIGN]]


def _columns(group: Group) -> tuple[list[Bytes], list[Bytes], list[Bytes], list[Bytes]]:
    runs = group.messages
    return (
        [run.lengths for run in runs],
        [run.durable for run in runs],
        [run.priority for run in runs],
        [run.ttl for run in runs],
    )


def _records(group: Group) -> Records:
    if len(group.messages) == 1 and not group.subscriptions:
        [run] = group.messages
        rows = [_settlement_row(one) for one in group.settlements] if group.settlements else []
        times = bytes(run.expires_at), bytes(run.deliver_at)
        return Records([run.topic], [(0, run.count)], rows, [], *times)
    topics: dict[str, int] = {}
    runs = [(topics.setdefault(run.topic, len(topics)), run.count) for run in group.messages]
    return Records(
        list(topics),
        runs,
        [_settlement_row(settlement) for settlement in group.settlements],
        [_subscription_row(record) for record in group.subscriptions],
        _times(group.messages, [run.expires_at for run in group.messages]) if runs else b"",
        _times(group.messages, [run.deliver_at for run in group.messages]) if runs else b"",
    )


def _times(runs: Sequence[PublishBatch], columns: list[Bytes]) -> bytes:
    """Join a column over all runs; empty where it is zero for all messages."""
    if not any(columns):
        return b""
    pairs = zip(columns, runs, strict=True)
    return b"".join([column or bytes(TIME_BYTES * run.count) for column, run in pairs])


def _settlement_row(settlement: Settlement) -> SettlementRow:
    runs = settlement.sequences
    if len(runs) == 1 and isinstance(run := runs[0], range):
        triples = [(run.start, run.step, len(run))]
    else:
        triples = [triple for run in runs for triple in _triples(run)]
    return SettlementRow(
        settlement.subscription,
        settlement.topic,
        settlement.consumer,
        settlement.outcome,
        settlement.final,
        settlement.delivery_count,
        settlement.delivered_at,
        settlement.settled_at,
        settlement.floor,
        triples,
    )


def _triples(run: Run) -> list[tuple[int, int, int]]:
    """Return the run as ranges: (first, step, count) of each."""
    if isinstance(run, range):
        return [(run.start, run.step, len(run))]
    import numpy as np  # noqa: PLC0415 (loaded with Arrow at the first link; a start needs none)

    sequences = np.frombuffer(run, np.int64)
    begins = np.flatnonzero(np.diff(sequences, prepend=-2) != 1)
    counts = np.diff(begins, append=len(sequences))
    return list(zip(sequences[begins].tolist(), repeat(1), counts.tolist(), strict=False))


def _subscription_row(record: LogEvent) -> SubscriptionRow:
    if isinstance(record, SchemaRecord):
        said, floor, policy = record.event.value, record.floor, record.text
        topic, by = record.topic, record.by or None
        return SubscriptionRow(
            said, record.id, topic, False, None, False, floor, policy=policy, by=by
        )
    if isinstance(record, TransactionRecord):
        said, floor, by, work = record.event.value, record.floor, record.by, record.work
        return SubscriptionRow(
            said, record.id, "", False, None, False, floor, by=by or None, work=work or None
        )
    definition = record.definition
    return SubscriptionRow(
        record.event.value,
        record.key.id,
        definition.topic,
        definition.shared,
        definition.selector,
        definition.no_local,
        record.floor,
        record.paused,
        record.policy,
        record.made.origin.value,
        record.made.user or None,
        record.dropped,
        record.by or None,
    )


def read_header(view: Bytes) -> FrameHeader | None:
    """Read the header at the view's start; None when no frame of this version begins there."""
    if len(view) < HEADER_BYTES:
        return None
    magic, version, group, first, at, count, records, body, _, crc, _ = HEADER.unpack_from(view)
    if magic != MAGIC or version != VERSION:
        return None
    size = _aligned(HEADER_BYTES + body, FRAME_ALIGN)
    return FrameHeader(group, first, at, count, records, body, crc, size)


def decode(view: memoryview) -> DecodedFrame:
    """Decode the frame that begins at the view's start; the view may be longer.

    The journal has checked the checksums. Raises StoreError for a frame whose sections contradict
    each other.
    """
    header = read_header(view)
    if header is None:
        raise StoreError("these bytes are no frame of the journal")
    if header.size > len(view):
        raise StoreError(
            f"the frame of group {header.group} has {header.size} bytes, {len(view)} are here"
        )
    at = HEADER_BYTES
    records = _decode_records(header, view[at : at + header.records_bytes])
    at += _aligned(header.records_bytes, SECTION_ALIGN)
    columns: list[memoryview] = []
    for width in _COLUMN_WIDTHS:
        columns.append(view[at : at + width * header.count])
        at += _aligned(width * header.count, SECTION_ALIGN)
    lengths, durable, priority, ttl = columns
    end = HEADER_BYTES + header.body_bytes
    if at > end:
        raise StoreError(f"the frame of group {header.group} ends inside of its columns")
    return DecodedFrame(
        header.group,
        header.first_sequence,
        header.written_at,
        header.count,
        records,
        lengths,
        durable,
        priority,
        ttl,
        view[at:end],
    )


def _decode_records(header: FrameHeader, section: memoryview) -> Records:
    try:
        records = _RECORDS_DECODER.decode(section)
    except msgspec.MsgspecError as error:
        raise StoreError(
            f"the records of group {header.group} can't be decoded: {error}"
        ) from error
    if sum(count for _, count in records.runs) != header.count:
        raise StoreError(f"the runs of group {header.group} don't add up to {header.count}")
    for name, column in (("expires_at", records.expires_at), ("deliver_at", records.deliver_at)):
        if column and len(column) != TIME_BYTES * header.count:
            raise StoreError(
                f"{name} of group {header.group} doesn't have {header.count} messages' times"
            )
    return records


def _aligned(size: int, to: int) -> int:
    return (size + to - 1) // to * to
