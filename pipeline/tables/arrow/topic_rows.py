"""Filter for the rows of a topic, or of the topics that match a pattern."""

import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.model.topic_pattern import is_pattern, matches
from distributary.pipeline.tables.arrow.arrow_types import Chunked


def rows_of(topic: str, topics: Chunked) -> pa.BooleanArray:
    """Return True for each row of the column `topics` whose topic is `topic` or matches it (a word
    of the log). A pattern is compared once with each distinct name."""
    if not is_pattern(topic):
        return pc.equal(topics, pa.scalar(topic, pa.string()))
    names = [one for one in pc.unique(topics).to_pylist() if matches(topic, str(one))]
    return pc.is_in(topics, pa.array(names, pa.string()))
