"""A page: a path, and the function that answers its visits."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from distributary.ingest.console.web.visit import Visit


@dataclass(frozen=True, slots=True)
class Page:
    """`method` is GET or POST. A part is asked for by a page that is shown already."""

    path: str
    answer: Callable[[Visit], Awaitable[Response]]
    method: str = "GET"
    is_part: bool = False
