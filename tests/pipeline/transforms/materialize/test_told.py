"""Events of `topic_log` that are no subscription's stay out of the table `subscriptions`."""

import datetime as dt

import pyarrow as pa

from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.transforms.materialize.subscriptions import told
from distributary.pipeline.transforms.schema.spark_schema import SUBSCRIPTIONS, arrow_schema

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
