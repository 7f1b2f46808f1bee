"""Lists and single subscriptions in a real browser."""

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from console_process import Console
from gateway_management import Manager
from gateway_peer import Peer
from playwright.sync_api import Locator, Page, expect

COUNT = 120


@pytest.fixture(scope="module")
def many(console: Console) -> Iterator[Peer]:
    """Many queues; one is paused, one has five messages and no consumer."""
    peer = Peer(console.gateway.port)
    manager = Manager(peer)
    for nth in range(COUNT):
        manager.done("CREATE", "queue", f"river-{nth:03}")
    manager.done("PAUSE", "queue", "river-007")
    peer.sender("queue://river-042", capabilities=("queue",)).publish(*"abcde")
    yield peer
    peer.drop()


def names(page: Page) -> Locator:
    return page.locator("tbody th")


def test_a_list_has_pages(
    console: Console, page: Page, many: Peer, picture: Callable[[Page, str], None]
) -> None:
    page.goto(f"{console.url}/queues")
    expect(page.locator("tbody tr")).to_have_count(50)
    expect(names(page)).to_have_text([f"river-{nth:03}" for nth in range(50)])
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("page 2 of 3")).to_be_visible()
    expect(names(page)).to_have_text([f"river-{nth:03}" for nth in range(50, 100)])
    page.get_by_role("link", name="Previous").click()
    expect(page.get_by_text("page 1 of 3")).to_be_visible()
    expect(page.get_by_text("1 to 50 of 120; as of")).to_be_visible()
    picture(page, "list")


def test_a_list_is_sorted_by_a_click_on_a_heading(console: Console, page: Page, many: Peer) -> None:
    """Numbers fall first, names rise; the heading says so."""
    page.goto(f"{console.url}/queues")
    page.get_by_role("link", name="Backlog").click()
    heading = page.get_by_role("columnheader", name="Backlog")
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(names(page).first).to_have_text("river-042")
    page.get_by_role("link", name="Queue", exact=True).click()
    expect(page.get_by_role("columnheader", name="Queue")).to_have_attribute(
        "aria-sort", "ascending"
    )
    page.get_by_role("link", name="Queue", exact=True).click()
    expect(names(page).first).to_have_text(f"river-{COUNT - 1:03}")


def test_a_list_is_searched_by_key(console: Console, page: Page, many: Peer) -> None:
    """`/` goes to the search; words and states are found, and what isn't is said."""
    page.goto(f"{console.url}/queues")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("RIVER 04")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(12)  # 040 to 049, 004, 104
    page.goto(f"{console.url}/queues?search=is:idle")
    expect(names(page)).to_have_text(["river-042"])
    page.goto(f"{console.url}/queues?search=is:paused")
    expect(names(page)).to_have_text(["river-007"])
    page.goto(f"{console.url}/queues?search=ocean")
    expect(page.get_by_text("None of 120 fits ocean")).to_be_visible()


def test_keys_lead_from_page_to_page(console: Console, page: Page) -> None:
    page.goto(console.url)
    page.keyboard.type("gt")  # a moment between them would be too long
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    expect(page.locator("html[data-ready]")).to_have_count(1)  # it hears keys from then on
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("Tab")


def test_one_of_them_shows_who_has_what(
    console: Console, page: Page, many: Peer, picture: Callable[[Page, str], None]
) -> None:
    """Two consumers with their shares; then no consumer has credit, and the page says so."""
    manager = Manager(many)
    manager.done("UPDATE", "queue", "river-001", policy={"lock_ms": 3_600_000})
    capable = {"capabilities": ("queue",)}
    one, two = Peer(console.gateway.port, "one"), Peer(console.gateway.port, "two")
    first = one.receiver("queue://river-001", **capable)
    first.link.flow(3)
    one.write()
    second = two.receiver("queue://river-001", **capable)
    second.link.flow(1)
    two.write()
    many.sender("queue://river-001", **capable).publish(*"abcdefgh")
    first.take(3, credit=False)
    second.take(1, credit=False)
    page.goto(f"{console.url}/queue?name=river-001")
    expect(page.get_by_role("heading", level=1)).to_have_text("queue/river-001")
    rows = page.get_by_role("region", name="Consumers").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("75%")
    expect(rows.nth(1)).to_contain_text("25%")
    expect(page.get_by_text("No consumer has credit left: they hold 4 messages")).to_be_visible()
    expect(page.locator(".legend")).to_contain_text("in flight 4")
    expect(page.get_by_role("region", name="In flight").locator("tbody tr")).to_have_count(4)
    expect(page.locator(".policy tr", has_text="lock_ms")).to_contain_text("its own")
    expect(page.locator(".policy tr", has_text="consumers_max")).to_contain_text("default")
    picture(page, "queue")
    one.drop()
    two.drop()
    expect(page.get_by_text("It has no consumers.")).to_be_visible()
    expect(page.get_by_text("No consumer is attached: 8 messages wait for one.")).to_be_visible()


def test_a_topic_leads_to_its_subscriptions(console: Console, page: Page, many: Peer) -> None:
    manager = Manager(many)
    manager.done("CREATE", "subscription", "global/flood", topic="floods")
    page.goto(f"{console.url}/topics?search=floods")
    page.get_by_role("link", name="floods").click()
    page.get_by_role("link", name="global/flood").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("global/flood")


def test_names_are_never_part_of_a_page(console: Console, page: Page, many: Peer) -> None:
    """Names with any characters are text."""
    evil = "<img src=x onerror=document.title='gone'>&\"'"
    manager = Manager(many)
    manager.done("CREATE", "queue", evil)
    page.goto(f"{console.url}/queue?name={quote(evil)}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("queue/")
    page.goto(f"{console.url}/queues?search={quote('onerror')}")
    expect(page.get_by_role("link", name=evil)).to_be_visible()
    expect(page).to_have_title("Queues · Distributary")


def test_what_is_not_there_is_said(console: Console, page: Page) -> None:
    answer = page.goto(f"{console.url}/subscription?id=global/nobody")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("alert")).to_contain_text("there is no subscription global/nobody")
    answer = page.goto(f"{console.url}/nowhere")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")


def test_a_topic_shows_its_schema(console: Console, page: Page, many: Peer) -> None:
    """Read only: that of its pattern, and what becomes of messages that don't fit."""
    page.goto(f"{console.url}/topic?name=lake.north")
    card = page.locator("section", has=page.get_by_role("heading", name="Schema"))
    expect(card.get_by_text("It has none")).to_be_visible()
    said = {"format": "json", "definition": '{"type": "object"}', "validate": "dead-letter"}
    Manager(many).done("UPDATE", "schema", "lake.*", **said)
    page.reload()
    expect(card.get_by_text("lake.*")).to_be_visible()
    expect(card.get_by_text("dead-letter")).to_be_visible()
