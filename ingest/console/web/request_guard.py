"""Checks of requests from browsers, and the headers of every answer.

Rule 1: the Host of a request is an IP address, `localhost`, or a name that `--name` gives: a page
        of another site whose name was pointed at this address reads nothing here (DNS rebinding).
Rule 2: a request that changes something comes from a page of the console: its Origin is the Host.
Rule 3: a body is `form_bytes_max` long at most, the head before it `head_bytes_max`.
Rule 4: no answer lets a browser run, load or send anything that the console itself doesn't serve.
"""

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none a browser sends no Origin with forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE: Final = frozenset({"GET", "HEAD"})


def host_allowed(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header names this console: an address, `localhost`, or one of its names."""
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else ""
    name = name or host.partition(":")[0]
    if name.lower() in names or name.lower() == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def refusal(method: str, headers: Headers, names: frozenset[str], form_bytes_max: int) -> str:
    """Why a request isn't taken, in a sentence; empty if it is."""
    host = headers.get("host", "")
    if not host_allowed(host, names):
        return "This console isn't known by that name: start it with --name, or use its address."
    if method in _SAFE:
        return ""
    if method != "POST":
        return f"The console takes no {method}."
    if headers.get("origin", "").partition("://")[2] != host:
        return "That form wasn't sent from a page of this console."
    length = headers.get("content-length", "")
    if not length.isdigit() or int(length) > form_bytes_max:
        return f"A form has {form_bytes_max} bytes at most (pages.form_bytes_max)."
    return ""


class RequestGuard:
    """Stands before all pages."""

    def __init__(
        self, app: ASGIApp, names: frozenset[str], form_bytes_max: int, head_bytes_max: int
    ) -> None:
        self._app, self._names = app, names
        self._form_bytes_max, self._head_bytes_max = form_bytes_max, head_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        headers = Headers(scope=scope)
        why = refusal(scope["method"], headers, self._names, self._form_bytes_max)
        if _head_bytes(scope) > self._head_bytes_max:
            why = f"A request's line and headers have {self._head_bytes_max} bytes at most."
        answer = PlainTextResponse(f"{why}\n", 400) if why else self._app
        with suppress(ClientDisconnect):  # in the middle of a form: no browser waits for an answer
            await answer(scope, receive, send_with_headers)


def _head_bytes(scope: Scope) -> int:
    """The bytes of a request's address and headers. The server bounds only bytes for which it
    waits."""
    named = sum(len(name) + len(value) for name, value in scope["headers"])
    return named + len(scope["path"]) + len(scope["query_string"])
