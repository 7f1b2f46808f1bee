"""Which rows are of a topic, or of one that matches a pattern."""

import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.model.topic_pattern import is_pattern, matches
from distributary.pipeline.tables.arrow.arrow_types import Chunked


def rows_of(topic: str, topics: Chunked) -> pa.BooleanArray:
    """True for each row whose topic, a column of them, is among those of `topic` (a word of the
    log). A pattern is compared once with each name that there is."""
    if not is_pattern(topic):
        return pc.equal(topics, pa.scalar(topic, pa.string()))
    names = [one for one in pc.unique(topics).to_pylist() if matches(topic, str(one))]
    return pc.is_in(topics, pa.array(names, pa.string()))
