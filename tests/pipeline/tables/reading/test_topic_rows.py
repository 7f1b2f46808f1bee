"""Places of a pattern's messages: by the bounds of names, and row by row."""

import pyarrow as pa
import pytest

from distributary.pipeline.tables.arrow.topic_rows import rows_of
from distributary.pipeline.tables.delta.message_file import TOPIC_EXACT_MAX, between

CUT = "o" * (TOPIC_EXACT_MAX + 1)


@pytest.mark.parametrize(
    ("topic", "low", "high", "may"),
    [
        ("pattern://orders.*", "a", "z", True),
        ("pattern://orders.*", "orders.eu", "orders.us", True),
        ("pattern://orders.*", "orders.eu", "z", True),
        ("pattern://orders.*", "a", "orders", True),  # the bounds alone don't tell
        ("pattern://orders.#", "orders", "orders", True),
        ("pattern://orders.*", "a", "order", False),
        ("pattern://orders.*", "orderz", "z", False),
        ("pattern://#", "a", "b", True),
        ("pattern://*.eu", "queue://a", "queue://b", True),
        (f"pattern://{CUT}z.*", "a", CUT, True),
        ("pattern://orders.*", None, "a", True),
        ("orders", "a", "b", False),
    ],
)
def test_which_bounds_may_hold_some_of_a_pattern(
    topic: str, low: str | None, high: str | None, may: bool
) -> None:
    assert between(topic, low, high) is may


def test_rows_of_a_topic_and_of_a_pattern() -> None:
    topics = pa.chunked_array([["a.b", "a", "queue://a.b"], ["a.b.c", "a.x"]])
    assert rows_of("a", topics).to_pylist() == [False, True, False, False, False]
    assert rows_of("pattern://a.*", topics).to_pylist() == [True, False, False, False, True]
    assert rows_of("pattern://a.#", topics).to_pylist() == [True, True, False, True, True]
    assert rows_of("pattern://z.*", topics).to_pylist() == [False] * 5
