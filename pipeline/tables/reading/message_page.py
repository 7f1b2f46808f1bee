"""The result of a reader of older messages."""

import msgspec

from distributary.pipeline.model.record_batch import RecordBatch


class Page(msgspec.Struct, frozen=True):
    """Messages of one topic or pattern, ascending. The batches have every committed message from
    the page's start to below `covered`."""

    batches: tuple[RecordBatch, ...]
    covered: int
