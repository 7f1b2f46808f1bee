"""What one task of a query reads: it is made in the driver, and read on an executor.

An executor needs pyspark, pyarrow and numpy for it, and neither Proton nor deltalake.
"""

from collections.abc import Mapping

from pyspark.sql.datasource import InputPartition

from distributary.pipeline.tables.reading.part_reading import Part, read
from distributary.pipeline.transforms.materialize.delivered import Batches, delivered, selected


class Piece(InputPartition):
    """What one task reads: a part, and what is known of its deliveries (`failed`: runs as text by
    failed attempts). With a selector not all of it is meant."""

    def __init__(
        self, part: Part, failed: Mapping[int, str], *, raw: bool, selector: str | None = None
    ) -> None:
        self.part, self.failed, self.raw, self.selector = part, failed, raw, selector

    def batches(self) -> Batches:
        """Read it, wherever this is."""
        there = selected(read(self.part), self.part.topic, self.selector)
        return delivered(there, self.failed, raw=self.raw)
