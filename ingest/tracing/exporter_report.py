"""Reports of the exporter's process to the gateway."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExporterReport:
    """Report of a batch: how many spans the collector took, how many it didn't, and why not."""

    exported: int
    failed: int
    reason: str = ""
