"""People: axe finds nothing on any page, by day and by night, wide and on a phone; all is reached
by the keyboard."""

from collections.abc import Callable, Iterator

import pytest
from chromium import violations
from console_process import Console
from gateway_management import Manager
from gateway_peer import Peer
from playwright.sync_api import Page, expect

PATHS = (
    "/",
    "/subscriptions",
    "/queues?sort=backlog&down=1",
    "/topics",
    "/topic?name=creeks",
    "/subscription?id=global/creek",
    "/subscription?id=queue/pond",
    "/do/rewind?id=queue/pond&to=0",
    "/do/purge?id=queue/pond",
    "/do/policy?id=queue/pond",
    "/do/delete-topic?id=creeks",
    "/create?type=subscription",
    "/create?type=queue&id=lake",
    "/queues?search=nothing-here",
    "/nowhere",
    "/login",
)


@pytest.fixture(scope="module")
def _filled(console: Console) -> Iterator[None]:
    """A queue whose consumer, of a long name, holds a message: pages are at their widest."""
    peer = Peer(console.gateway.port)
    manager = Manager(peer)
    manager.done("CREATE", "subscription", "global/creek", topic="creeks", selector="n > 1")
    manager.done("CREATE", "queue", "pond", policy={"lock_ms": 600_000})
    peer.sender("queue://pond", capabilities=("queue",)).publish("a", "b", "c")
    name = "a-consumer-with-a-long-name-as-frameworks-make-them-up"
    peer.receiver("queue://pond", name=name, capabilities=("queue",)).take(1)
    yield
    peer.drop()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.usefixtures("_filled")
def test_axe_finds_nothing(
    console: Console,
    window: Callable[..., Page],
    scheme: str,
    width: int,
    picture: Callable[[Page, str], None],
) -> None:
    """And nothing is wider than the window."""
    page = window(color_scheme=scheme, viewport={"width": width, "height": 844})
    for path in PATHS:
        page.goto(console.url + path)
        if path == "/":
            expect(page.locator(".plot canvas").first).to_be_visible()
            if (scheme, width) == ("dark", 1280):
                picture(page, "dark")
        if path.endswith("pond") and (scheme, width) == ("light", 390):
            picture(page, f"phone-{path.split('/')[1].split('?')[0]}")
        assert not violations(page), path
        expect(page.locator("html[data-ready]"), path).to_have_js_property("scrollWidth", width)


@pytest.mark.usefixtures("_filled")
def test_all_is_reached_by_the_keyboard(console: Console, page: Page) -> None:
    """The first stop skips the navigation; a form is filled in and sent without a mouse."""
    page.goto(f"{console.url}/subscription?id=queue/pond")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.get_by_label("Operations").get_by_role("link", name="Pause").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Pause", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("queue/pond is paused")
