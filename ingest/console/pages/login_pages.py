"""Logging in and out, and the pages for browsers without a session."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from distributary.ingest.console.web.entrance import Entrance
from distributary.ingest.console.web.sessions import Session
from distributary.ingest.console.web.templates import Templates
from distributary.ingest.console.web.visit import form_fields
from distributary.jobs.client.management_client import LoginRefused, Unanswered

#: Characters of a user's name and a password.
NAME_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class Door:
    """The pages by which users log in and out. `secure`: over TLS; `cookie` is the name of the
    session's."""

    entrance: Entrance
    templates: Templates
    gateway: str
    cookie: str
    secure: bool

    def session_of(self, request: Request) -> Session | None:
        """The request's session, if it has one."""
        return self.entrance.sessions.find(request.cookies.get(self.cookie, ""))

    def let_in(self, session: Session, answer: Response) -> Response:
        """The answer, which also tells the browser of its session."""
        answer.set_cookie(
            self.cookie, session.key, httponly=True, samesite="strict", secure=self.secure
        )
        return answer

    async def without_session(self, request: Request) -> Session | Response:
        """A session for a browser without one, where the gateway takes peers without a login; else
        the login page, or the page for a gateway that doesn't answer."""
        if request.headers.get("sec-fetch-site") == "cross-site":
            # A link from elsewhere comes without the cookie: the same page asks again with it.
            return HTMLResponse(self.templates.render("again.html", {}))
        try:
            return await self.entrance.log_in("", "")
        except LoginRefused:
            here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/login?to={quote(here)}", status_code=303)
        except Unanswered as error:
            return self.page("unreachable.html", {"why": str(error)}, 503)

    async def show_login(self, request: Request) -> Response:
        """The form."""
        return self.page("login.html", {"to": request.query_params.get("to", "/"), "why": ""})

    async def log_in(self, request: Request) -> Response:
        """Log in with the form's user and password, which the gateway checks."""
        said = form_fields(await request.body())
        user, password, to = said.get("user", ""), said.get("password", ""), said.get("to", "/")
        if not user or len(user) > NAME_MAX or len(password) > NAME_MAX:
            return self.page("login.html", {"to": to, "why": "Say who you are."}, 400)
        try:
            session = await self.entrance.log_in(user, password)
        except LoginRefused:
            why = "The gateway doesn't let this user in with this password."
            return self.page("login.html", {"to": to, "why": why}, 403)
        except Unanswered as error:
            return self.page("login.html", {"to": to, "why": f"{error}."}, 503)
        if (before := self.session_of(request)) is not None:
            self.entrance.sessions.end(before)
        return self.let_in(session, RedirectResponse(own_path(to), status_code=303))

    def log_out(self, session: Session) -> Response:
        """End a session."""
        self.entrance.sessions.end(session)
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(self.cookie)
        return answer

    def page(self, template: str, values: dict[str, object], status: int = 200) -> Response:
        """A page without a session."""
        said = {"gateway": self.gateway, **values}
        return HTMLResponse(self.templates.render(template, said), status)


def own_path(to: str) -> str:
    """Return `to` if it is a path of this console, else the path of the first page."""
    parts = urlsplit(to)
    safe = not parts.scheme and not parts.netloc and to.startswith("/")
    return to if safe and not to.startswith(("//", "/\\")) else "/"
