"""Answers of a gateway over HTTP: metrics and health."""

import http.client
from collections.abc import Mapping
from pathlib import Path

from gateway_process import Gateway, Settings, free_port, until
from prometheus_client.parser import text_string_to_metric_families

Labels = tuple[tuple[str, str], ...]


class ShownGateway(Gateway):
    """A gateway with a port for metrics and health."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.http_port = free_port()
        given = settings or {}
        shown = {"listen": f"127.0.0.1:{self.http_port}", **given.get("http", {})}
        super().__init__(folder, {**given, "http": shown})

    def ask(self, path: str, method: str = "GET") -> tuple[int, str, Mapping[str, str]]:
        """Status, body and headers of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=30)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())
        finally:
            connection.close()

    def metrics(self) -> dict[tuple[str, Labels], float]:
        """Every sample by its name and labels, as Prometheus' own reader of the text has it."""
        status, text, _ = self.ask("/metrics")
        assert status == 200
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def metric(self, name: str, **labels: str) -> float:
        """One sample; 0 if there is none."""
        return self.metrics().get((f"distributary_{name}", tuple(sorted(labels.items()))), 0)

    def await_metric(self, wanted: float, name: str, **labels: str) -> None:
        until(lambda: self.metric(name, **labels) == wanted, f"{name} {labels} is {wanted}")
