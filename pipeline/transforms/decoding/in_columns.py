"""Result of a walk as the columns of `messages`.

Rule 1: every column has one element for each message of the blob; the elements of fallbacks mean
        nothing, and may not even be text.
Rule 2: of all other messages the columns are equal to those that `one_by_one` makes.
"""

import struct
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.codec.amqp_codes import BINARIES, NULL, STRINGS, Kind
from distributary.pipeline.codec.amqp_types import DecodeBudget, DecodeError, DecodeLimits, read
from distributary.pipeline.codec.rendering import JsonRoom
from distributary.pipeline.transforms.decoding.blob import (
    Array,
    Blob,
    Mask,
    Values,
    faulty_texts,
    table,
)
from distributary.pipeline.transforms.decoding.one_by_one import (
    LIMITS,
    PLAIN_BODY,
    TEXT_PREFIXES,
    TIMESTAMP_MS_MAX,
    TIMESTAMP_MS_MIN,
    MessageLimits,
    as_text,
)
from distributary.pipeline.transforms.decoding.property_maps import (
    no_booleans,
    typed_maps,
    whole_numbers,
)
from distributary.pipeline.transforms.decoding.section_walk import ELEMENTS_MAX, HEADS, Found, walk

#: Columns that are fields of the properties section, by the same name.
TEXT_FIELDS = (
    "message_id",
    "correlation_id",
    "subject",
    "to",
    "reply_to",
    "content_type",
    "group_id",
)
#: Fields that no column shows, but that must be valid text all the same.
UNSHOWN = ("content_encoding", "reply_to_group_id")

_IS_BINARY, _IS_STRING = table(*BINARIES), table(*STRINGS)
_IS_PLAIN_ID = table(*STRINGS, NULL)
_IS_BYTES_OR_TEXT = table(*BINARIES, *STRINGS, NULL)
#: Most values that a walked message has beside those of its body: sections, elements of maps.
_VALUES_BESIDE = len(Kind) + 4 * ELEMENTS_MAX
_KINDS = (0, Kind.DATA, Kind.SEQUENCE, Kind.VALUE)
_KIND_NAMES = ("none", "data", "sequence", "value")


def decoded_in_columns(blob: Blob, limits: MessageLimits = LIMITS) -> tuple[dict[str, Array], Mask]:
    """The columns of a blob's messages by name, and a mask of the fallbacks."""
    found = walk(blob)
    fallback = found.fallback
    columns: dict[str, Array] = {}
    for name in TEXT_FIELDS:
        columns[name] = _text(blob, found.properties[name], fallback)
    for name in ("message_id", "correlation_id"):
        fallback |= ~_IS_PLAIN_ID.take(found.properties[name].codes)
    columns |= _times_and_counts(blob, found)
    user = found.properties["user_id"]
    columns["user_id"], _ = _bytes_as_text(blob, user, _IS_BINARY.take(user.codes))
    for name, elements in found.typed_maps.items():
        columns[name], odd = typed_maps(blob, elements)
        fallback |= odd
    columns |= _body(blob, found, columns["content_type"], fallback, limits)
    columns["error"] = pa.nulls(blob.count, pa.string())
    columns["message"] = pa.nulls(blob.count, pa.binary())
    _check_the_rest(blob, found, fallback)
    return columns, fallback


def _text(blob: Blob, values: Values, fallback: Mask) -> Array:
    made, faulty = blob.texts(values)
    fallback |= faulty
    return made


def _bytes_as_text(blob: Blob, values: Values, which: Mask) -> tuple[Array, Mask]:
    """The bytes of these values as text, null where they aren't UTF-8; and a mask of those."""
    made = blob.ranges(values, which, pa.string())
    faulty = faulty_texts(made, np.zeros(blob.count, np.bool_))
    if faulty.any():
        made = blob.ranges(values, which & ~faulty, pa.string())
    return made, faulty


def _times_and_counts(blob: Blob, found: Found) -> dict[str, Array]:
    milliseconds, there = whole_numbers(blob, found.properties["creation_time"])
    there &= (milliseconds >= TIMESTAMP_MS_MIN) & (milliseconds <= TIMESTAMP_MS_MAX)
    microseconds = np.where(there, milliseconds, 0) * 1000
    sequences, in_group = whole_numbers(blob, found.properties["group_sequence"])
    failures, _ = whole_numbers(blob, found.header["delivery_count"])
    return {
        "creation_time": pa.array(microseconds, mask=~there).cast(pa.timestamp("us", "UTC")),
        "group_sequence": pa.array(sequences, mask=~in_group),
        "delivery_count": pa.array(failures),
    }


def _body(
    blob: Blob, found: Found, content_type: Array, fallback: Mask, limits: MessageLimits
) -> dict[str, Array]:
    body, kinds = found.body, found.kinds
    binary, text = _IS_BINARY.take(body.codes), _IS_STRING.take(body.codes)
    names = np.zeros(blob.count, np.int32)
    for nth, kind in enumerate(_KINDS):
        names[kinds == kind] = nth
    readable = binary.copy()
    if binary.any():
        readable &= _is_readable(content_type)
    texts, no_texts = _bytes_as_text(blob, body, text | readable)
    fallback |= no_texts & text
    if (others := ~_IS_BYTES_OR_TEXT.take(body.codes)).any():
        written = _written_out(blob, body, others, fallback, limits)
        places = np.arange(blob.count)
        places[others] = blob.count + np.arange(len(written))
        texts = pa.concat_arrays([texts, written]).take(places)
    return {
        "body_kind": pa.array(_KIND_NAMES).take(names),
        "body_text": texts,
        "body_bytes": blob.ranges(body, binary, pa.binary()),
        PLAIN_BODY: pa.array(
            (binary | text) & ~_says_something(found.properties["content_encoding"])
        ),
    }


def _says_something(texts: Values) -> Mask:
    """A mask of the texts that are present and not empty."""
    return cast("Mask", (texts.codes != NULL) & (texts.stops > texts.starts))


def _written_out(
    blob: Blob, body: Values, which: Mask, fallback: Mask, limits: MessageLimits
) -> Array:
    """Lists, maps and numbers as text. Each is read by itself: JSON is made in Python anyway.

    A body that comes near a limit makes its message a fallback: the limits are for a whole message,
    and only the body is counted here.
    """
    most = max(limits.decode.values_max - _VALUES_BESIDE, 0)
    near = DecodeLimits(most, limits.decode.depth_max)
    firsts = (body.starts - HEADS.take(body.codes))[which]  # with its constructor
    texts: list[str | None] = []
    for nth, first, stop in zip(
        np.flatnonzero(which).tolist(), firsts.tolist(), body.stops[which].tolist(), strict=True
    ):
        try:
            value, _ = read(blob.bytes[first:stop].tobytes(), 0, DecodeBudget(stop - first, near))
            texts.append(as_text(value, JsonRoom(limits.json_chars_max)))
        except (DecodeError, IndexError, struct.error, UnicodeDecodeError):
            fallback[nth] = True
            texts.append(None)
    return cast("Array", pa.array(texts, pa.string()))


def _is_readable(content_type: Array) -> Mask:
    """A mask of the messages whose content type says that the body's bytes are text."""
    found = np.zeros(len(content_type), np.bool_)
    if content_type.null_count < len(content_type):
        for prefix in TEXT_PREFIXES:
            starts = pc.starts_with(cast("Any", content_type), prefix).fill_null(False)
            found |= np.asarray(starts)
    return found


def _check_the_rest(blob: Blob, found: Found, fallback: Mask) -> None:
    """Mark messages with a faulty value in a field that no column shows."""
    for name in ("durable", "first_acquirer"):
        fallback |= no_booleans(blob, found.header[name])
    for name in UNSHOWN:
        _text(blob, found.properties[name], fallback)
    _, faulty = blob.texts(found.footer.values)
    faulty |= no_booleans(blob, found.footer.values)
    fallback[found.footer.owners[faulty]] = True
