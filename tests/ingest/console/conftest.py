"""One gateway, one console and one browser for each file; each test has a window of its own.

A test fails when its pages broke the content-security policy or had an error in their scripts.
With CONSOLE_PICTURES in the environment `picture` writes the guide's screenshots.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import chromium
import pytest
from console_process import Console
from gateway_http import ShownGateway
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "guides" / "images"
WIDTH, HEIGHT = 1280, 800


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownGateway]:
    """The file's gateway; a test may restart it, and leaves it running."""
    with ShownGateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def console(shown: ShownGateway) -> Iterator[Console]:
    with Console(shown) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.running() as made:
        yield made


@pytest.fixture
def window(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens pages of a browser without any history; all must stay without errors."""
    made: list[BrowserContext] = []
    wrong: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        # An answer that is no 200, or that a test keeps from coming, is said by Chromium, too.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            wrong.append(message.text)

    def new(**options: object) -> Page:
        size = {"width": WIDTH, "height": HEIGHT}
        place = {"viewport": size, "locale": "en-US", "timezone_id": "UTC"}
        context = browser.new_context(**{**place, **options})
        made.append(context)
        page = context.new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        return page

    yield new
    for context in made:
        context.close()
    assert not wrong, wrong


@pytest.fixture
def page(window: Callable[..., Page]) -> Page:
    return window()


@pytest.fixture
def picture() -> Callable[[Page, str], None]:
    """Writes a screenshot for the guide, when the environment asks for it."""

    def take(page: Page, name: str) -> None:
        if "CONSOLE_PICTURES" in os.environ:
            IMAGES.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=IMAGES / f"console-{name}.png")

    return take
