"""Messages of one topic as they are kept and delivered. `RecordBatch` is no msgspec struct:
selectors read it on Spark's executors, too, where only our wheel is installed. It isn't frozen, as
that takes five times as long to make; but it is never changed."""

from array import array
from dataclasses import dataclass

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.model.header_attributes import HeaderAttributes


@dataclass(slots=True, eq=False)
class RecordBatch:
    """Messages of one topic, to deliver: all of them from `first` to `stop - 1`.

    `filtered`: only those that one subscription's selector may match, as a hint says; for no other
    subscription.

    Their sequences are `first .. first + count - 1`, unless `sequences` lists them: int64,
    ascending, the first one `first`. Message i lies at `blob[offsets[i]:offsets[i + 1]]`;
    `offsets` is int32, native-endian, `count + 1` elements. `attributes` is None when all
    messages are plain.
    """

    first: int
    count: int
    blob: Bytes
    offsets: Bytes
    sequences: "array[int] | None" = None
    attributes: HeaderAttributes | None = None
    filtered: bool = False

    @property
    def stop(self) -> int:
        """The sequence after the last message."""
        return self.first + self.count if self.sequences is None else self.sequences[-1] + 1
