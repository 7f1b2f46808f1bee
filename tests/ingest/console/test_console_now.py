"""The first page in a real browser."""

from collections.abc import Callable

from console_process import Console
from gateway_peer import Peer
from playwright.sync_api import Page, expect


def test_it_shows_what_is_published(
    console: Console, page: Page, picture: Callable[[Page, str], None]
) -> None:
    """Numbers and plots move without a reload."""
    peer = Peer(console.gateway.port)
    page.goto(console.url)
    expect(page).to_have_title("Now · Distributary")
    expect(page.get_by_text("Nothing is wrong")).to_be_visible()
    peer.sender("rivers").publish("water")
    expect(page.locator("dl.about")).to_contain_text("Log1 messages", timeout=10_000)
    expect(page.locator(".plot canvas")).to_have_count(4)
    picture(page, "now")
    peer.drop()
