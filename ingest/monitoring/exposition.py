"""Samples of metrics as the text that Prometheus reads.

prometheus-client writes the text (prometheus.io/docs/instrumenting/exposition_formats). It is given
a hundred samples at a time, so that whoever asks for the parts may let others go on in between.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from distributary.ingest.monitoring.metric_table import Metric, MetricKind
from distributary.pipeline.log.message_counts import Histogram

__all__ = ["CONTENT_TYPE_LATEST", "Sample", "histogram_text", "texts"]

#: Samples that are written in one part, 5 us each.
PART_SAMPLES: Final = 100

#: The values of a metric's labels, and its value there.
Sample = tuple[Sequence[str], float]


class _One(Collector):
    """What prometheus-client writes: one family."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Family]:
        yield self._family


def texts(metric: Metric, samples: Sequence[Sample]) -> Iterator[bytes]:
    """The text of a counter or gauge, in parts."""
    for at in range(0, max(len(samples), 1), PART_SAMPLES):
        whole = generate_latest(_One(_family(metric, samples[at : at + PART_SAMPLES])))
        yield whole if not at else _without_head(whole)


def histogram_text(metric: Metric, histogram: Histogram) -> bytes:
    """The text of a histogram."""
    family = HistogramMetricFamily(metric.full_name, metric.help)
    family.add_metric([], [*histogram.buckets()], histogram.sum)
    return generate_latest(_One(family))


def _family(metric: Metric, samples: Sequence[Sample]) -> Family:
    made: CounterMetricFamily | GaugeMetricFamily
    if metric.kind is MetricKind.COUNTER:
        made = CounterMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    else:
        made = GaugeMetricFamily(metric.full_name, metric.help, labels=metric.labels)
    for values, value in samples:
        made.add_metric(values, value)
    return made


def _without_head(whole: bytes) -> bytes:
    """Without the lines of help and type, which a family has once."""
    return whole.split(b"\n", 2)[2]
