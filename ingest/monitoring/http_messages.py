"""Answers over HTTP, and the site that gives them."""

from typing import Final, Protocol

import msgspec

PLAIN: Final = "text/plain; charset=utf-8"


class Answer(msgspec.Struct, frozen=True):
    """An answer: its status (RFC 9110, section 15), its body and the body's type."""

    status: int
    body: bytes
    content_type: str = PLAIN


class Site(Protocol):
    """The source of answers."""

    async def answer(self, path: str) -> Answer:
        """Return the answer to GET of this path, without its query."""


def said(status: int, text: str) -> Answer:
    """Return an answer of one line."""
    return Answer(status, f"{text}\n".encode())
