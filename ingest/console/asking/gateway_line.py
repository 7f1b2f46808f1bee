"""One user's line to the gateway: a connection that is opened when something is asked and closed
when nothing was asked for a while. The gateway may be at one of several addresses: those of its
home's owner and of the standbys that take it over.

Rule 1: a request that only reads is sent again on a new connection when the old one is lost.
Rule 2: what changes something is sent once: the connection is looked at before, and what was sent
        and not answered is said to be uncertain.
Rule 3: after a failed connect nothing is tried for RETRY_SECONDS: pages answer at once meanwhile.
Rule 4: the address that answered last is asked first, then the others in their order: a standby
        takes no connections while it stands by.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from distributary.jobs.client.management_client import Client, Gateway, LoginRefused, Unanswered
from distributary.pipeline.management.management_messages import Entity, Verb

#: Seconds after a failed connect in which nothing is tried.
RETRY_SECONDS: Final = 1.0
_READING: Final = frozenset({Verb.READ, Verb.QUERY, Verb.HELD, Verb.OWED})


class GatewayLine:
    """Thread-safe: one request after the other."""

    def __init__(
        self, gateways: Sequence[Gateway], answer_seconds: float, idle_seconds: float
    ) -> None:
        """`gateways`: one at least, each with the same user."""
        self._gateways = [replace(one, seconds=answer_seconds) for one in gateways]
        self._at = 0  # which of them answered last
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._used = 0.0
        self._failed: tuple[float, Unanswered] | None = None

    def another(self) -> "GatewayLine":
        """One to the same gateways."""
        return GatewayLine(self._gateways, self._gateways[0].seconds, self._idle_seconds)

    def ask(
        self,
        verb: Verb,
        entity: Entity,
        name: str = "",
        attributes: Mapping[str, object] = {},
        log: str = "",
    ) -> dict[str, Any]:
        """Send a request and return the answer's body. Raises Unanswered and Refused."""
        with self._lock:
            there = self._client is not None
            if there and verb not in _READING:
                self._look()
            try:
                return self._opened().ask(verb, entity, name, attributes, log)
            except Unanswered:
                self._drop()
                if not there or verb not in _READING:
                    raise
                return self._opened().ask(verb, entity, name, attributes, log)
            finally:
                self._used = time.monotonic()

    @property
    def address(self) -> str:
        """The address at which the gateway answered last; before that the first one."""
        return self._gateways[self._at].address

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
                self._client = self._found()
            except Unanswered as error:
                self._failed = (time.monotonic(), error)
                raise
            self._failed = None
        return self._client

    def _found(self) -> Client:
        """A connection to the first address that answers. A refused login is an answer."""
        failed: list[Unanswered] = []
        for nth in range(self._at, self._at + len(self._gateways)):
            at = nth % len(self._gateways)
            try:
                client = Client(self._gateways[at])
            except LoginRefused:
                self._at = at
                raise
            except Unanswered as error:
                failed.append(error)
            else:
                self._at = at
                return client
        if len(failed) == 1:
            raise failed[0]
        raise Unanswered("; ".join(map(str, failed)))

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
