"""What is asked for over HTTP, and the answers."""

from typing import Final, Protocol

import msgspec

PLAIN: Final = "text/plain; charset=utf-8"


class Answer(msgspec.Struct, frozen=True):
    """An answer: its status (RFC 9110, section 15), its body and what that is."""

    status: int
    body: bytes
    content_type: str = PLAIN


class Site(Protocol):
    """What there is to see."""

    async def answer(self, path: str) -> Answer:
        """The answer to GET of this path, without its query."""


def said(status: int, text: str) -> Answer:
    """An answer of one line."""
    return Answer(status, f"{text}\n".encode())
