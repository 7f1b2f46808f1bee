"""Input of one task of a query: made in the driver, and read on an executor.

An executor needs pyspark, pyarrow and numpy for it, and neither Proton nor deltalake.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from distributary.pipeline.tables.reading.part_reading import Part, read
from distributary.pipeline.transforms.materialize.delivered import Batches, delivered, selected


class Piece(InputPartition):
    """Input of one task: a part, and its deliveries' failed attempts (`failed`: runs as text, by
    attempts). A selector leaves messages out. `form` gives the columns."""

    def __init__(
        self,
        part: Part,
        failed: Mapping[int, str],
        *,
        form: "Form",
        selector: str | None = None,
    ) -> None:
        self.part, self.failed, self.form, self.selector = part, failed, form, selector

    def batches(self) -> Batches:
        """Read it, on any machine."""
        there = selected(read(self.part), self.part.topic, self.selector)
        return self.form.of(there, self.failed)


@dataclass(frozen=True, slots=True)
class Form:
    """The columns of deliveries; `typed`: with a body by a schema."""

    raw: bool
    typed: StructType | None

    def of(self, batches: Batches, failed: Mapping[int, str]) -> Batches:
        """Return rows of the log in this form."""
        if self.typed is None:
            return delivered(batches, failed, raw=self.raw)
        # Executors need the libraries of schemas for these columns alone.
        from distributary.pipeline.transforms.typed.delivered_typed import delivered_typed  # noqa: PLC0415

        return delivered_typed(batches, failed, self.typed)
