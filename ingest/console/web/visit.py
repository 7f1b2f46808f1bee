"""One request of somebody who is logged in: who asks, what the gateway says to them, and the page
that is written for them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from distributary.ingest.console.asking.metrics_poller import MetricsPoller
from distributary.ingest.console.records.home_records import HomeRecords
from distributary.ingest.console.settings.console_settings import ConsoleSettings
from distributary.ingest.console.web.sessions import Session
from distributary.ingest.console.web.templates import Templates
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.management.management_messages import Entity, Verb

#: Fields that a form may have.
FIELDS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Console:
    """What all visits share."""

    settings: ConsoleSettings
    templates: Templates
    poller: MetricsPoller
    records: HomeRecords
    #: Of each part of the navigation its name, its path, its text.
    navigation: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a session."""

    request: Request
    session: Session
    console: Console

    def asked(self, name: str, default: str = "") -> str:
        """What the address asks under this name."""
        return self.request.query_params.get(name, default)

    async def ask(
        self, verb: Verb, entity: Entity, name: str = "", attributes: Mapping[str, object] = {}
    ) -> dict[str, Any]:
        """What the gateway answers to this visitor. Raises Refused, Unanswered."""
        line = self.session.account.line
        return await asyncio.to_thread(line.ask, verb, entity, name, attributes)

    async def require_own_log(self) -> None:
        """Before the tables are read: whether they are those of the gateway that is asked, once for
        an account. What may be seen of them is that gateway's word. Raises StoreError where they
        are another's, or a copy; Refused, Unanswered."""
        account, records = self.session.account, self.console.records
        if account.own_log_at != account.line.address:
            said = await self.ask(Verb.READ, Entity.NODE, "self")
            await records.ask(records.require, LogIdentity.of(said.get("table")))
            account.own_log_at = account.line.address

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
        }
        return HTMLResponse(self.console.templates.render(template, {**common, **values}), status)

    def part(self, template: str, values: Mapping[str, object]) -> HTMLResponse:
        """A part of a page that is there already."""
        token = {"form_token": self.session.form_token}
        return HTMLResponse(self.console.templates.render(template, {**token, **values}))

    def done(self, sentence: str, to: str) -> Response:
        """What was asked is done: a sentence on the page that comes next."""
        self.session.note(sentence)
        return RedirectResponse(to, status_code=303)


def form_fields(body: bytes) -> dict[str, str]:
    """The fields of a form. Raises InvalidRequest for what is none."""
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
