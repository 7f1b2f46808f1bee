"""What a reader of older messages gives back."""

from dataclasses import dataclass

from distributary.pipeline.model.record_batch import RecordBatch


@dataclass(frozen=True, slots=True)
class Page:
    """Messages of one topic or pattern, ascending. Every committed one below `covered` is in the
    batches."""

    batches: tuple[RecordBatch, ...]
    covered: int
