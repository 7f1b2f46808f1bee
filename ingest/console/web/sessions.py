"""Sessions of logged-in users. Sessions live in memory: they end with the console.

Rule 1: a session is made by a login that the gateway has taken, or where it takes peers without
        one. Its rights are those that the gateway gives its user.
Rule 2: there are so many at most, and each ends when it is idle or old.
Rule 3: all sessions of one login share one account: one line to the gateway, one list of all that
        its user may see.
"""

import hmac
import secrets
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Final

from distributary.ingest.console.asking.gateway_line import GatewayLine
from distributary.ingest.console.asking.sweeps import Sweeps
from distributary.ingest.console.settings.console_settings import SessionSettings
from distributary.jobs.client.management_client import Gateway

#: Sentences that wait to be shown on the next page of a session.
NOTES_MAX: Final = 5


@dataclass(slots=True, eq=False)
class Account:
    """One login, with its connections and lists. `gateways`: where the gateway may be, each with
    this login."""

    gateways: tuple[Gateway, ...]
    line: GatewayLine
    sweeps: Sweeps
    #: A line for the questions about each log that a page names: one without an owner keeps others
    #: waiting on its own alone.
    lines: dict[str, GatewayLine] = field(default_factory=dict)
    #: Of each log that a page named (empty: none) which one it is, and the address whose gateway
    #: has said that the tables which are read here are this log's.
    known_logs: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def user(self) -> str:
        """Empty without a login."""
        return self.gateways[0].user

    def line_of(self, log: str, logs: Container[str]) -> GatewayLine:
        """The line for questions about a log, if it is one of these; else that of all."""
        if log not in logs:
            return self.line
        if log not in self.lines:
            self.lines[log] = self.line.another()
        return self.lines[log]

    def close_idle(self) -> None:
        """Close connections on which nothing was asked for long."""
        for line in (self.line, *list(self.lines.values())):
            line.close_if_idle()

    def close(self) -> None:
        """Close the lines of an account without a session."""
        self.sweeps.close()
        for line in (self.line, *list(self.lines.values())):
            line.close()


@dataclass(slots=True, eq=False)
class Session:
    """One browser's. `began` and `used` are seconds of a clock that never goes back."""

    account: Account
    began: float
    used: float
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    #: Stands in each form.
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    notes: list[str] = field(default_factory=list)

    def note(self, sentence: str) -> None:
        """To be shown on the next page."""
        self.notes = [*self.notes, sentence][-NOTES_MAX:]

    def take_notes(self) -> list[str]:
        """Return the sentences to be shown now, and forget them."""
        notes, self.notes = self.notes, []
        return notes

    def is_form_token(self, said: str) -> bool:
        """Whether a form is one of this session's own."""
        return hmac.compare_digest(said.encode(), self.form_token.encode())


def _silent(session: Session) -> tuple[bool, float]:
    """Order of removal: sessions without a user first, then those idle for longest."""
    return bool(session.account.user), session.used


class Sessions:
    """All of them. `clock` gives seconds and never goes back."""

    def __init__(self, settings: SessionSettings, clock: Callable[[], float]) -> None:
        self._settings, self._clock = settings, clock
        self._sessions: dict[str, Session] = {}

    def begin(self, account: Account) -> Session:
        """A session of an account that the gateway has let in."""
        self.end_old()
        while len(self._sessions) >= self._settings.sessions_max:
            silent = min(self._sessions.values(), key=_silent)
            del self._sessions[silent.key]
        now = self._clock()
        session = Session(account, now, now)
        self._sessions[session.key] = session
        return session

    def find(self, key: str) -> Session | None:
        """The session of a cookie, if it hasn't ended."""
        self.end_old()
        session = self._sessions.get(key)
        if session is not None:
            session.used = self._clock()
        return session

    def end(self, session: Session) -> None:
        """Log out."""
        self._sessions.pop(session.key, None)

    def end_old(self) -> None:
        """End those whose time is over."""
        now, said = self._clock(), self._settings
        self._sessions = {
            key: one
            for key, one in self._sessions.items()
            if now - one.used <= said.idle_minutes * 60 and now - one.began <= said.hours_max * 3600
        }

    def accounts(self) -> set[Account]:
        """The accounts of all sessions."""
        return {one.account for one in self._sessions.values()}
