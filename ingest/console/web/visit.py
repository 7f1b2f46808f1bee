"""One request of a session: its user, the gateway's answers to that user, and the page that is
written for it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from distributary.ingest.console.asking.metrics_poller import MetricsPoller
from distributary.ingest.console.records.home_records import HomeRecords
from distributary.ingest.console.records.lake_records import LakeRecords
from distributary.ingest.console.settings.console_settings import ConsoleSettings
from distributary.ingest.console.web.sessions import Session
from distributary.ingest.console.web.templates import Templates, link
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.log_names import MAIN
from distributary.pipeline.management.management_messages import Entity, Verb

#: Fields that a form may have.
FIELDS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Console:
    """Parts that all visits share."""

    settings: ConsoleSettings
    templates: Templates
    poller: MetricsPoller
    records: LakeRecords
    #: Of each part of the navigation its name, its path, its text.
    navigation: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a session."""

    request: Request
    session: Session
    console: Console
    #: The log that has the page's object, once it is known; until then the address may name it.
    placed: str = ""

    def asked(self, name: str, default: str = "") -> str:
        """Value of this parameter of the address."""
        return self.request.query_params.get(name, default)

    @property
    def log(self) -> str:
        """The log that the address names, of a home with several; empty: none, and the gateway
        finds it."""
        return self.placed or self.asked("log")

    def link(self, path: str, values: Mapping[str, object] | None = None) -> str:
        """An address of the console that stays in the log of this visit, if none is said."""
        return link(path, {"log": self.log or None, **(values or {})})

    async def ask(
        self, verb: Verb, entity: Entity, name: str = "", attributes: Mapping[str, object] = {}
    ) -> dict[str, Any]:
        """Ask the gateway as this visitor, about this visit's log. Raises Refused, Unanswered."""
        line = self.session.account.line
        if self.log:
            line = self.session.account.line_of(self.log, self.console.records.logs)
        return await asyncio.to_thread(line.ask, verb, entity, name, attributes, self.log)

    async def records(self) -> HomeRecords:
        """The tables of this visit's log; where it names none, of the gateway's own. They are the
        gateway's: that is asked once for an account, and what may be seen of them is that
        gateway's word. Raises StoreError where they are another's, or a copy; Refused,
        Unanswered."""
        account = self.session.account
        log, at = account.known_logs.get(self.log, ("", ""))
        if at != account.line.address:
            said = await self.ask(Verb.READ, Entity.NODE, "self")
            log = str(said.get("log_name", MAIN))
            found = self.console.records.of(log)
            await found.ask(found.require, LogIdentity.of(said.get("table")))
            account.known_logs[self.log] = log, account.line.address
        return self.console.records.of(log)

    async def form(self) -> dict[str, str]:
        """The fields of a form of this session. Raises InvalidRequest for a form that isn't."""
        said = form_fields(await self.request.body())
        if not self.session.is_form_token(said.pop("form_token", "")):
            raise InvalidRequest("that form is of a session that has ended: send it again")
        return said

    def page(
        self, template: str, here: str, values: Mapping[str, object], status: int = 200
    ) -> HTMLResponse:
        """A page of the console; `here` is the part of the navigation that it belongs to."""
        common = {
            "here": here,
            "navigation": self.console.navigation,
            "user": self.session.account.user,
            "gateway": self.session.account.line.address,
            "form_token": self.session.form_token,
            "notes": self.session.take_notes(),
            "state": self.console.poller.state(),
            "link": self.link,
            "log": self.log,
        }
        return HTMLResponse(self.console.templates.render(template, {**common, **values}), status)

    def part(self, template: str, values: Mapping[str, object]) -> HTMLResponse:
        """A part of a page that is there already."""
        common = {"form_token": self.session.form_token, "link": self.link, "log": self.log}
        return HTMLResponse(self.console.templates.render(template, {**common, **values}))

    def done(self, sentence: str, to: str) -> Response:
        """Lead on after an operation: `sentence` is shown on the next page."""
        self.session.note(sentence)
        return RedirectResponse(to, status_code=303)


def form_fields(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises InvalidRequest if the body isn't a form."""
    try:
        pairs = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            strict_parsing=bool(body),
            max_num_fields=FIELDS_MAX,
        )
    except ValueError:
        raise InvalidRequest("that is no form of this console") from None
    return dict(pairs)
