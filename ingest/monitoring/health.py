"""The gateway's life and readiness for clients, as load balancers ask for them.

| path | 200 | 503 |
|---|---|---|
| `/livez` | the process turns its loop: an answer at all | never |
| `/readyz` | it owns the home, its journal takes more | a standby, at its end, with a full disk |
| `/metrics` | the metrics, or on a standby the few that it has | |
"""

from collections.abc import Callable
from typing import Final

from distributary.ingest.monitoring import metric_table as m
from distributary.ingest.monitoring.gateway_metrics import GatewayMetrics
from distributary.ingest.monitoring.http_messages import Answer, said
from distributary.ingest.runtime.host import Halt

PATHS: Final = ("/livez", "/readyz", "/metrics")
_NOT_FOUND: Final = said(404, f"there are {', '.join(PATHS)}")
_LIVES: Final = said(200, "ok")


class WaitingSite:
    """A gateway that doesn't serve yet. Implements `Site`."""

    def __init__(self, why: str) -> None:
        """`why`: the reason to wait, for people."""
        self._why = why

    async def answer(self, path: str) -> Answer:
        match path:
            case "/livez":
                return _LIVES
            case "/readyz":
                return said(503, self._why)
            case "/metrics":
                return _metrics([], ready=False)
            case _:
                return _NOT_FOUND


class ServingSite:
    """A gateway that owns its home. Implements `Site`."""

    def __init__(
        self,
        halt: Halt,
        sure: Callable[[], bool],
        full: Callable[[], bool],
        metrics: GatewayMetrics,
    ) -> None:
        """`sure`: whether the home is certainly ours; `full`: whether the disk is full."""
        self._halt, self._sure, self._full, self._metrics = halt, sure, full, metrics

    async def answer(self, path: str) -> Answer:
        match path:
            case "/livez":
                return _LIVES
            case "/readyz":
                why = self._unready()
                return said(503, why) if why else said(200, "ok")
            case "/metrics":
                return await self._shown()
            case _:
                return _NOT_FOUND

    def _unready(self) -> str:
        """Return why it isn't ready; empty if it is."""
        if self._halt.asked:
            return "the gateway stops"
        if not self._sure():
            return "the home is another gateway's"
        return "the disk is full: publishers wait" if self._full() else ""

    async def _shown(self) -> Answer:
        pieces = [piece async for piece in self._metrics.parts()]
        return _metrics(pieces, ready=not self._unready())


def _metrics(pieces: list[bytes], *, ready: bool) -> Answer:
    from distributary.ingest.monitoring import exposition  # noqa: PLC0415 (the first scrape loads it)

    texts = exposition.texts(m.READY, [((), int(ready))])
    return Answer(200, b"".join([*pieces, *texts]), exposition.CONTENT_TYPE_LATEST)
