"""What the exporter's process tells the gateway."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExporterReport:
    """Of a batch of spans: how many the collector took, how many it didn't, and why not."""

    exported: int
    failed: int
    reason: str = ""
