"""All pages as one application: each visit has a session, and errors are pages, too."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from distributary.ingest.console.pages import (
    entity_pages,
    making_pages,
    message_pages,
    now_page,
    operation_pages,
    picture_parts,
    proof_pages,
    subscription_page,
)
from distributary.ingest.console.pages.login_pages import Door
from distributary.ingest.console.pages.page import Page
from distributary.ingest.console.web.request_guard import RequestGuard
from distributary.ingest.console.web.static_assets import StaticAssets
from distributary.ingest.console.web.visit import Console, Visit
from distributary.jobs.client.management_client import LoginRefused, Refused, Unanswered
from distributary.pipeline.errors import InvalidRequest, StoreError

#: All pages of a session.
PAGES: Final[tuple[Page, ...]] = (
    *now_page.PAGES,
    *entity_pages.PAGES,
    *subscription_page.PAGES,
    *making_pages.PAGES,
    *operation_pages.PAGES,
    *message_pages.PAGES,
    *picture_parts.PAGES,
    *proof_pages.PAGES,
)

#: The parts of the navigation: name, path, text.
NAVIGATION: Final = (
    ("now", "/", "Now"),
    ("subscriptions", "/subscriptions", "Subscriptions"),
    ("queues", "/queues", "Queues"),
    ("topics", "/topics", "Topics"),
    ("messages", "/messages", "Messages"),
    ("proof", "/proof", "Proof"),
)

Endpoint = Callable[[Request], Awaitable[Response]]


def application(
    console: Console, door: Door, assets: StaticAssets, names: frozenset[str]
) -> ASGIApp:
    """The console as an ASGI application. `names`: hosts by which it is known."""

    async def asset(request: Request) -> Response:
        found = assets.served(request.path_params["name"])
        if found is None:
            return PlainTextResponse("There is no such file.\n", 404)
        headers = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(found.body, media_type=found.kind, headers=headers)

    async def unknown(request: Request, _error: Exception) -> Response:
        return await _answered(console, door, request, _absent)

    async def bug(_request: Request, _error: Exception) -> Response:
        return door.page("bug.html", {}, 500)

    @asynccontextmanager
    async def life(_app: Starlette) -> AsyncIterator[None]:
        tidying = asyncio.create_task(door.entrance.tidy())
        yield
        tidying.cancel()
        await console.poller.close()

    routes = [
        Route("/assets/{name}", asset, methods=["GET"]),
        Route("/login", door.show_login, methods=["GET"]),
        Route("/login", door.log_in, methods=["POST"]),
        Route(
            "/logout", _endpoint(console, door, Page("/logout", _log_out(door))), methods=["POST"]
        ),
        *(
            Route(page.path, _endpoint(console, door, page), methods=[page.method])
            for page in PAGES
        ),
    ]
    app = Starlette(routes=routes, lifespan=life, exception_handlers={404: unknown, 500: bug})
    limits = console.settings
    return RequestGuard(app, names, limits.pages.form_bytes_max, limits.requests.head_bytes_max)


def _endpoint(console: Console, door: Door, page: Page) -> Endpoint:
    async def answer(request: Request) -> Response:
        if page.is_part and door.session_of(request) is None:
            return PlainTextResponse("Log in first.\n", 401)
        return await _answered(console, door, request, page.answer)

    return answer


async def _answered(
    console: Console,
    door: Door,
    request: Request,
    answer: Callable[[Visit], Awaitable[Response]],
) -> Response:
    """The answer to a visit, in its session."""
    session, new = door.session_of(request), False
    if session is None:
        found = await door.without_session(request)
        if isinstance(found, Response):
            return found
        session, new = found, True
    visit = Visit(request, session, console)
    try:
        done = await answer(visit)
    except LoginRefused:
        door.entrance.sessions.end(session)
        return RedirectResponse("/login", status_code=303)
    except Refused as error:
        done = _problem(visit, "The gateway refuses this", str(error), error.status)
    except Unanswered as error:
        of = f" about the log {visit.log}, which may have none now" if visit.log else ""
        done = _problem(visit, f"The gateway doesn't answer{of}", str(error), 503)
    except InvalidRequest as error:
        done = _problem(visit, "That can't be meant", str(error), 400)
    except StoreError as error:
        done = _problem(visit, "The tables can't be read", str(error), 500)
    return door.let_in(session, done) if new else done


async def _absent(visit: Visit) -> Response:
    return _problem(visit, "There is no such page", "The address may be of an older console.", 404)


def _problem(visit: Visit, title: str, sentence: str, status: int) -> Response:
    known = status if 400 <= status <= 599 else 500
    return visit.page("problem.html", "", {"title": title, "sentence": sentence}, known)


def _log_out(door: Door) -> Callable[[Visit], Awaitable[Response]]:
    async def log_out(visit: Visit) -> Response:
        await visit.form()
        return door.log_out(visit.session)

    return log_out
