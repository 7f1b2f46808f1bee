"""The console of a home with several logs: all of them at any gateway, each thing where it is."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from console_process import Console
from gateway_fleet import Fleet
from gateway_http import ShownGateway
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import until
from playwright.sync_api import Page, expect
from proton import Delivery

from distributary.pipeline.model.address import PATTERN_PREFIX

IN_ORDERS = "orders.bills"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A gateway for each of two logs; the console's is that of `main`. A subscription of the same
    id is in both, each with a message of its own."""
    folders = (tmp_path_factory.mktemp(f"gateway-{nth}") for nth in range(9))
    with Fleet(
        tmp_path_factory.mktemp("fleet"),
        lambda settings: ShownGateway(next(folders), settings),
        {"commit": {"interval_ms": 50}, "management": {"list_wait_ms": 500}},
    ) as fleet:
        peer = Peer(fleet.main.port, "clerk")
        manager = Manager(peer)
        for topic, body in (("news", "in-main"), (IN_ORDERS, "in-orders")):
            peer.leave(peer.durable(topic, "twice"), closed=False)
            peer.sender(topic).publish(body)
        manager.done("CREATE", "queue", "orders.q")
        peer.sender("queue://orders.q", capabilities=("queue",)).publish("one", "two")
        taken = peer.receiver("queue://orders.q", capabilities=("queue",))
        taken.confirm(taken.take(1), Delivery.ACCEPTED)
        peer.drop()
        yield fleet


@pytest.fixture(scope="module")
def lake(fleet: Fleet) -> Iterator[Console]:
    assert isinstance(fleet.main, ShownGateway)
    with Console(fleet.main) as running:
        yield running


def test_lists_have_what_all_logs_have(lake: Console, page: Page) -> None:
    page.goto(f"{lake.url}/subscriptions")
    twice = "container/clerk/twice"
    expect(page.locator("tbody th")).to_have_text([twice, twice, "queue/orders.q"])
    expect(page.locator("tbody td:nth-child(2)")).to_have_text(["main", "orders", "orders"])
    page.goto(f"{lake.url}/subscriptions?search=log:main")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto(f"{lake.url}/")
    expect(page.get_by_text("Subscriptions with most to do in the log main")).to_be_visible()


def test_what_is_done_is_done_in_the_log_of_the_page(
    lake: Console, fleet: Fleet, page: Page
) -> None:
    """The other one of that name is left alone; all links of a page stay in its log."""
    page.goto(f"{lake.url}/subscriptions")
    page.locator("tr", has_text="orders").get_by_role("link", name="twice").click()
    expect(page.get_by_text(IN_ORDERS, exact=True).first).to_be_visible()
    expect(page.get_by_text("in the log orders", exact=True)).to_be_visible()
    page.get_by_role("link", name="Pause …").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("container/clerk/twice is paused.")).to_be_visible()
    paused = {}
    for gateway in (fleet.main, fleet.orders):
        peer = Peer(gateway.port)
        listed = Manager(peer).done(
            "QUERY", "subscription", attributeNames=["log", "paused", "name"]
        )
        paused[gateway] = [row[:2] for row in listed["results"] if row[2].endswith("twice")]
        peer.drop()
    assert list(paused.values()) == [[["main", False], ["orders", True]]] * 2
    page.get_by_role("link", name="Resume …").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("link", name="Rewind …").click()
    page.locator("input[name=to]").fill("0")
    page.get_by_role("button", name="What will it do?").click()
    expect(page.get_by_role("heading", name="It will do this")).to_be_visible()
    expect(page).to_have_url(re.compile("log=orders"))


def test_a_message_of_another_log_has_its_life(lake: Console, page: Page) -> None:
    """By the tables of its log, found by its topic; what is in flight by its owner."""
    page.goto(f"{lake.url}/messages?topic={IN_ORDERS}")
    expect(page.get_by_text("in-orders").first).to_be_visible()
    page.locator("tbody th a").first.click()
    expect(page.get_by_role("link", name="container/clerk/twice").first).to_be_visible()
    expect(page).to_have_url(re.compile("log=orders"))
    page.goto(f"{lake.url}/messages?topic=news")
    expect(page.get_by_text("in-main").first).to_be_visible()
    page.goto(f"{lake.url}/messages?topic={quote(PATTERN_PREFIX)}%23")
    expect(page.get_by_text("main, orders").first).to_be_visible()


def test_a_subscription_of_another_log_has_its_picture(lake: Console, page: Page) -> None:
    page.goto(f"{lake.url}/queue?name=orders.q")
    expect(page.get_by_role("link", name="Look at what waits")).to_be_visible()
    page.get_by_role("link", name="Look at what waits").click()
    expect(page.locator("tbody td.body")).to_have_text(["two"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_nothing_is_wider_than_the_window(
    lake: Console, window: Callable[..., Page], scheme: str, tmp_path: Path
) -> None:
    page = window(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    for path in ("/subscriptions", "/queue?name=orders.q&log=orders", "/messages?topic=news", "/"):
        page.goto(lake.url + path)
        expect(page.locator("html[data-ready]"), path).to_have_js_property("scrollWidth", 390)


def test_an_owner_that_is_away_is_shown_as_such(lake: Console, fleet: Fleet, page: Page) -> None:
    """Lists say so, with what the others have; the pages of other logs go on."""
    fleet.orders.kill()
    try:
        page.goto(f"{lake.url}/queues")
        expect(page.get_by_text("Without what is in the log orders").first).to_be_visible()
        page.goto(f"{lake.url}/")
        expect(page.get_by_text("The log orders has no gateway that answers").first).to_be_visible()
        page.goto(f"{lake.url}/subscription?id=container/clerk/twice&log=main")
        expect(page.get_by_text("in the log main", exact=True)).to_be_visible()
        page.goto(f"{lake.url}/subscription?id=container/clerk/twice&log=orders")
        expect(page.get_by_text("about the log orders").first).to_be_visible()
    finally:
        fleet.orders.start()
    until(lambda: fleet.main.events("relay.connected"), "the owner is back")
