"""Samples of metrics as the text that Prometheus reads.

prometheus-client writes the text (prometheus.io/docs/instrumenting/exposition_formats), but for the
lines of counters and gauges, of which there are a dozen for each subscription: it takes 5 us for
each, and these are written in a fifth of that. Text is made some hundred samples at a time, so that
the caller may give the loop a turn in between.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from distributary.ingest.monitoring.metric_table import Metric, MetricKind, Sample
from distributary.pipeline.log.message_counts import Histogram

__all__ = ["CONTENT_TYPE_LATEST", "histogram_text", "texts"]

#: Samples that are written in one part, 1 us each.
PART_SAMPLES: Final = 500


class _One(Collector):
    """One family, as prometheus-client takes it."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Family]:
        yield self._family


def texts(metric: Metric, samples: Sequence[Sample]) -> Iterator[bytes]:
    """Yield the text of a counter or gauge, in parts."""
    yield generate_latest(_One(_family(metric)))
    name, labels = metric.full_name, metric.labels
    for at in range(0, len(samples), PART_SAMPLES):
        part = samples[at : at + PART_SAMPLES]
        lines = [f"{name}{_labels(labels, values)} {float(value)}\n" for values, value in part]
        yield "".join(lines).encode()


def _labels(labels: tuple[str, ...], values: Sequence[str]) -> str:
    match labels:
        case ():
            return ""
        case (label,):
            return f'{{{label}="{_escaped(values[0])}"}}'
    pairs = zip(labels, values, strict=True)
    return "{" + ",".join([f'{label}="{_escaped(value)}"' for label, value in pairs]) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def histogram_text(metric: Metric, histogram: Histogram) -> bytes:
    """Return the text of a histogram."""
    family = HistogramMetricFamily(metric.full_name, metric.help)
    family.add_metric([], [*histogram.buckets()], histogram.sum)
    return generate_latest(_One(family))


def _family(metric: Metric) -> Family:
    """Return a counter or gauge without samples: its lines of help and type."""
    if metric.kind is MetricKind.COUNTER:
        return CounterMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    return GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
