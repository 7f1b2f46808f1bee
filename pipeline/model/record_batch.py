"""Messages of one topic as they are kept and delivered. A dataclass and no struct: selectors read
it on Spark's executors, too, which have nothing of ours but the wheel. And not a frozen one, which
takes five times as long to make; nothing changes it all the same."""

from array import array
from dataclasses import dataclass

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.model.header_attributes import HeaderAttributes


@dataclass(slots=True, eq=False)
class RecordBatch:
    """Messages of one topic, to deliver: all that the topic has from `first` to `stop - 1`.

    `filtered`: only what one subscription's selector may match, as a hint says; it is of no use to
    any other.

    Their sequences are `first .. first + count - 1`, unless `sequences` lists them: int64,
    ascending, the first one `first`. Message i lies at `blob[offsets[i]:offsets[i + 1]]`;
    `offsets` is int32, native-endian, `count + 1` elements. `attributes` is None when all of them
    are plain.
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
