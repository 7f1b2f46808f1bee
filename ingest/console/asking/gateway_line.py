"""One user's line to the gateway: a connection that is opened when something is asked and closed
when nothing was asked for a while.

Rule 1: what only reads is asked again on a new connection when the old one turns out to be lost.
Rule 2: what changes something is sent once: the connection is looked at before, and what was sent
        and not answered is said to be uncertain.
Rule 3: after a failed connect nothing is tried for RETRY_SECONDS: pages answer at once meanwhile.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from distributary.jobs.client.management_client import Client, Gateway, Unanswered
from distributary.pipeline.management.management_messages import Entity, Verb

#: Seconds after a failed connect in which nothing is tried.
RETRY_SECONDS: Final = 1.0
_READING: Final = frozenset({Verb.READ, Verb.QUERY, Verb.HELD, Verb.OWED})


class GatewayLine:
    """Thread-safe: one request after the other."""

    def __init__(self, gateway: Gateway, answer_seconds: float, idle_seconds: float) -> None:
        self._gateway = replace(gateway, seconds=answer_seconds)
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._used = 0.0
        self._failed: tuple[float, Unanswered] | None = None

    def ask(
        self, verb: Verb, entity: Entity, name: str = "", attributes: Mapping[str, object] = {}
    ) -> dict[str, Any]:
        """What the answer's body says. Raises Unanswered and Refused."""
        with self._lock:
            there = self._client is not None
            if there and verb not in _READING:
                self._look()
            try:
                return self._opened().ask(verb, entity, name, attributes)
            except Unanswered:
                self._drop()
                if not there or verb not in _READING:
                    raise
                return self._opened().ask(verb, entity, name, attributes)
            finally:
                self._used = time.monotonic()

    def try_login(self) -> None:
        """Open the connection if it isn't there. Raises Unanswered, LoginRefused."""
        with self._lock:
            self._opened()
            self._used = time.monotonic()

    def close_if_idle(self) -> None:
        """Close the connection when nothing was asked for long; nothing waits for that."""
        if self._lock.acquire(blocking=False):
            try:
                if self._client and time.monotonic() - self._used > self._idle_seconds:
                    self._drop()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        with self._lock:
            self._drop()

    def _opened(self) -> Client:
        if self._client is None:
            now = time.monotonic()
            if self._failed is not None and now - self._failed[0] < RETRY_SECONDS:
                raise self._failed[1]
            try:
                self._client = Client(self._gateway)
            except Unanswered as error:
                self._failed = (time.monotonic(), error)
                raise
            self._failed = None
        return self._client

    def _look(self) -> None:
        """Whether the connection lives still; it is dropped if not."""
        try:
            if self._client is not None:
                self._client.breathe()
        except Unanswered:
            self._drop()

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
