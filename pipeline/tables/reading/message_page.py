"""What a reader of older messages gives back."""

import msgspec

from distributary.pipeline.model.record_batch import RecordBatch


class Page(msgspec.Struct, frozen=True):
    """Messages of one topic or pattern, ascending. Every committed one below `covered` is in the
    batches."""

    batches: tuple[RecordBatch, ...]
    covered: int
