"""Events of `topic_log`, as the tables `subscriptions` and `schemas` have them."""

import datetime as dt

import pyarrow as pa
import pytest

from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.transforms.materialize.schema_versions import schemas_told
from distributary.pipeline.transforms.materialize.subscriptions import told
from distributary.pipeline.transforms.schema.spark_schema import SUBSCRIPTIONS, arrow_schema, in_utc

#: Of schemas, and of transactions.
LEFT_OUT = {"schema", "prepared", "decided", "committed", "rolled_back", "completed"}


def test_schemas_and_prepared_transactions_are_no_subscriptions() -> None:
    """All other events are there, each with what it says."""
    kind = arrow_schema(SUBSCRIPTIONS)
    events = [event.value for event in SubscriptionEvent]
    columns = {
        "subscription": [f"global/{event}" for event in events],
        "topic": ["t"] * len(events),
        "event": events,
        "floor": [3] * len(events),
        "group": list(range(len(events))),
        "recorded_at": [dt.datetime(2026, 11, 27, tzinfo=dt.UTC)] * len(events),
    }
    types = {name: kind.field(name).type for name in columns}
    batch = pa.RecordBatch.from_arrays(
        [pa.array(values, types[name]) for name, values in columns.items()], list(columns)
    )
    [out] = told([batch])
    assert out.column("event").to_pylist() == [event for event in events if event not in LEFT_OUT]
    assert set(events) >= LEFT_OUT


@pytest.mark.parametrize("zone", ["UTC", "UTC+3", "PST", "Europe/Berlin"])
def test_times_of_any_zone_that_a_session_may_have(zone: str) -> None:
    """Python knows neither UTC+3 nor PST; the moment is the same, wherever in a row it is."""
    at = dt.datetime(2026, 11, 27, 1, 2, 3, 4, tzinfo=dt.UTC)
    times = pa.array([at], pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))
    one, texts = pa.array([0, 1], pa.int32()), pa.array(["a"])
    columns = {
        "plain": times,
        "list": pa.ListArray.from_arrays(one, times),
        "struct": pa.StructArray.from_arrays([times], ["x"]),
        "map": pa.MapArray.from_arrays(one, texts, times),
        "none": times.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")),
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    assert in_utc(batch).to_pylist() == [
        {
            "plain": at,
            "list": [at],
            "struct": {"x": at},
            "map": [("a", at)],
            "none": at.replace(tzinfo=None),
        }
    ]


def test_a_schema_that_was_set_where_the_session_has_a_zone_of_java() -> None:
    kind = pa.timestamp("us", "UTC")
    at = dt.datetime(2026, 11, 27, tzinfo=dt.UTC)
    columns = {
        **{name: pa.array([name]) for name in ("topic", "by")},
        "event": pa.array(["schema"]),
        "policy": pa.array(['{"version": 1}']),
        **{name: pa.array([7]) for name in ("floor", "group")},
        "recorded_at": pa.array([at], kind).cast(pa.timestamp("us", "PST")),
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    [out] = schemas_told([batch])
    assert out.column("recorded_at").to_pylist() == [at]
    assert out.column("version").to_pylist() == [1]
