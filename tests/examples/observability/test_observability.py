"""The rules and the dashboard ask for metrics that there are, with labels that these have; where
promtool is installed it checks the rules."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from distributary.ingest.monitoring.metric_table import METRICS, MetricKind

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "observability"
LABELS = {
    one.full_name + suffix: {*one.labels, *(("le",) if suffix == "_bucket" else ())}
    for one in METRICS
    for suffix in (("_bucket", "_count", "_sum") if one.kind is MetricKind.HISTOGRAM else ("",))
}
OF_JOBS = set(re.findall(r"`(distributary_job_\w+)`", (ROOT / "docs/guides/spark.md").read_text()))
#: What Prometheus adds to every series.
ADDED = {"instance", "job"}


def unknown(expression: str) -> set[str]:
    """Metrics that aren't there, and labels that none of the expression's metrics has."""
    named = set(re.findall(r"\bdistributary_\w+", expression))
    labels = {
        label
        for group in re.findall(r"by \(([^)]*)\)", expression)
        for label in re.findall(r"\w+", group)
    } | set(re.findall(r"(\w+)=\"", expression))
    known = set().union(*(LABELS.get(name, set()) for name in named)) | ADDED
    return (named - LABELS.keys() - OF_JOBS) | (labels - known)


def expressions() -> list[str]:
    rules = re.findall(r"expr: (.*)", (FOLDER / "alerts.yml").read_text())
    panels = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    guide = (ROOT / "docs/guides/monitoring.md").read_text().split("## Alerts")[1]
    said = re.findall(r"^\| .*? \| `(.*?)`", guide, re.MULTILINE)
    found = rules + [target["expr"] for panel in panels for target in panel["targets"]] + said
    assert (len(rules), len(panels), len(said)) == (17, 16, 15)
    return found


@pytest.mark.parametrize("expression", expressions())
def test_what_is_asked_for_is_there(expression: str) -> None:
    assert not unknown(expression)


def test_what_is_not_there_is_seen() -> None:
    assert unknown("sum by (topic) (rate(distributary_deliveries_total[1m]))") == {"topic"}
    assert unknown("distributary_backlog > 1") == {"distributary_backlog"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool isn't installed")
def test_prometheus_takes_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", FOLDER / "alerts.yml"], check=True)
