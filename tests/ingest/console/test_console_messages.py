"""Messages, the life of one, a subscription's pictures and the proof, in a real browser."""

import json
import re
from collections.abc import Callable, Iterator

import pytest
from chromium import evaluated, violations
from console_process import Console
from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Peer, selector
from gateway_process import until
from playwright.sync_api import Page, expect
from proton import Delivery

from distributary.ingest.console.log_rows.log_reader import LogReader
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.home.home import Home

Picture = Callable[[Page, str], None]


def committed(gateway: ShownGateway, sequence: int) -> None:
    """Wait until the table has all messages below this one."""
    store = LocalStore(Home(gateway.home).topic_log)
    until(
        lambda: (
            store.exists("_delta_log/00000000000000000000.json")
            and LogReader(store).snapshot().as_of.sequence >= sequence
        ),
        "a commit",
    )


@pytest.fixture(scope="module")
def story(shown: ShownGateway) -> Iterator[Peer]:
    """Orders for a warehouse, a biller who fails once, and one who wants red ones alone; one order
    ends among the dead letters."""
    peer = Peer(shown.port, "shop")
    manager = Manager(peer)
    manager.done("CREATE", "subscription", "global/warehouse", topic="orders")
    said = {"topic": "orders", "policy": {"delivery_attempts_max": 2}}
    manager.done("CREATE", "subscription", "global/billing", **said)
    manager.done("CREATE", "subscription", "global/red", topic="orders", selector="colour = 'red'")
    orders = peer.sender("orders")
    body = {"order": 4711, "lines": [{"article": "map", "count": 2}], "paid": True}
    data = json.dumps(body).encode()
    properties = {"colour": "blue", "weight": 2.5}
    orders.publish_data(
        [
            encoded(data, id="order-1", inferred=True, user_id=b"alice", properties=properties),
            *(encoded(f"order {n}", id=f"order-{n}", subject="retail") for n in range(2, 121)),
        ]
    )
    warehouse = Peer(shown.port, "warehouse-7")
    link = warehouse.shared_durable("orders", "warehouse|global")
    link.confirm(link.take(90))
    biller = Peer(shown.port, "biller")
    link = biller.shared_durable("orders", "billing|global")
    for _ in range(2):
        [failed] = link.take(1)
        failed.delivery.local.failed = True
        link.confirm([failed], Delivery.MODIFIED)
    red = Peer(shown.port, "red")
    red.shared_durable("orders", "red|global", filters=selector("colour = 'red'"))
    link.confirm(link.take(30))
    committed(shown, 120)
    yield peer
    for one in (peer, warehouse, biller, red):
        one.drop()


def test_a_topic_is_browsed_and_a_message_is_opened(
    story: Peer, console: Console, page: Page, picture: Picture
) -> None:
    """The filters are in the address; the newest come first, and the pages lead on to the end."""
    page.goto(f"{console.url}/messages")
    page.get_by_label("Topic or queue").fill("orders")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile(r"topic=orders"))
    rows = page.locator("table.messages tbody tr")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("order 120")
    picture(page, "messages")
    page.get_by_role("link", name="Next page").click()
    page.get_by_role("link", name="Next page").click()
    expect(rows).to_have_count(20)
    expect(page.get_by_role("link", name="Next page")).to_have_count(0)
    expect(rows.last).to_contain_text("order-1")
    rows.last.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Message 0")


def test_a_selector_and_a_place(story: Peer, console: Console, page: Page) -> None:
    page.goto(f"{console.url}/messages?topic=orders&selector=colour+%3D+%27blue%27")
    expect(page.locator("table.messages tbody tr")).to_have_count(1)
    page.goto(f"{console.url}/messages?topic=orders&since=100&order=oldest")
    expect(page.locator("table.messages tbody tr")).to_have_count(20)
    page.goto(f"{console.url}/messages?topic=orders&selector=colour+%3D")
    expect(page.get_by_role("alert")).to_contain_text("line 1, column")
    page.goto(f"{console.url}/messages?topic=orders&since=yesterday")
    expect(page.get_by_role("alert")).to_contain_text("is no place in the log")
    page.goto(f"{console.url}/messages?subscription=global/warehouse&waiting=yes&order=oldest")
    expect(page.locator("table.messages tbody tr")).to_have_count(30)


def test_the_life_of_a_message(story: Peer, console: Console, page: Page, picture: Picture) -> None:
    """The page shows each delivery, its time and end, and the dead letter, with a link back."""
    page.goto(f"{console.url}/messages/0")
    lanes = page.locator("article.lane")
    expect(lanes).to_have_count(3)
    billing = lanes.filter(has_text="global/billing")
    expect(billing.locator(".chip")).to_have_text("dead-lettered")
    expect(billing.locator("li")).to_contain_text(["biller/billing|global got it", "(attempt 2)"])
    expect(lanes.filter(has_text="global/red").locator(".chip")).to_have_text("not selected")
    expect(lanes.filter(has_text="global/warehouse").locator(".chip")).to_have_text("accepted")
    expect(page.get_by_text("alice", exact=True).first).to_be_visible()
    expect(page.locator(".tree .key").first).to_have_text("order")
    expect(page.locator("table.pairs")).to_contain_text(["colour", "message-id"])
    evaluated(page, "document.activeElement.blur()")
    picture(page, "message")
    page.get_by_role("link", name=re.compile("^message 1")).click()
    expect(page.locator(".kin")).to_contain_text("This is a dead letter")
    page.locator(".kin a").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Message 0")


def test_what_is_not_there(story: Peer, console: Console, page: Page) -> None:
    page.goto(f"{console.url}/messages/999999")
    expect(page.get_by_role("alert")).to_contain_text("isn't there yet")
    page.goto(f"{console.url}/messages/word")
    expect(page.get_by_role("alert")).to_contain_text("no sequence")


def test_a_subscription_in_pictures(
    story: Peer, console: Console, page: Page, picture: Picture
) -> None:
    """Its backlog over the last hours, and its strip in ranges; from there to what waits."""
    page.goto(f"{console.url}/subscription?id=global/warehouse")
    expect(page.locator(".history figcaption")).to_contain_text("30 messages wait now")
    expect(page.get_by_text("30 messages wait or are in flight")).to_be_visible()
    expect(page.locator(".history .line")).to_have_count(1)
    page.get_by_role("link", name="1 h", exact=True).click()
    expect(page).to_have_url(re.compile("hours=1"))
    expect(page.locator(".history figcaption")).to_contain_text("30 messages wait now")
    expect(page.locator(".strip.ranges")).to_be_visible()
    evaluated(page, "document.querySelector('.strip.ranges').scrollIntoView({block: 'center'})")
    picture(page, "subscription-history")
    page.get_by_role("link", name="Look at what waits").click()
    expect(page.locator("table.messages tbody tr")).to_have_count(30)


def test_a_message_in_flight_is_said_by_the_gateway(
    story: Peer, shown: ShownGateway, console: Console, page: Page
) -> None:
    with Peer(shown.port, "holder") as holder:
        link = holder.shared_durable("orders", "warehouse|global")
        link.take(1)
        page.goto(f"{console.url}/messages/90")
        lane = page.locator("article.lane").filter(has_text="global/warehouse")
        expect(lane.locator(".chip")).to_have_text("in flight")
        expect(lane).to_contain_text("holder/warehouse|global holds it since")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nobody_is_kept_out(
    story: Peer, console: Console, window: Callable[..., Page], scheme: str
) -> None:
    """axe finds no violation on these pages."""
    page = window(color_scheme=scheme)
    for path in (
        "/messages",
        "/messages?topic=orders",
        "/messages/0",
        "/messages/120",
        "/messages/999999",
        "/subscription?id=global/warehouse",
        "/proof",
    ):
        page.goto(console.url + path)
        if "id=" in path:
            expect(page.locator(".history figcaption")).to_be_visible()
        assert not violations(page), path


def test_on_a_phone_nothing_is_wider_than_the_screen(
    story: Peer, console: Console, window: Callable[..., Page]
) -> None:
    page = window(viewport={"width": 390, "height": 844})
    for path in ("/messages?topic=orders", "/messages/0", "/proof"):
        page.goto(console.url + path)
        expect(page.locator("html[data-ready]"), path).to_have_js_property("scrollWidth", 390)
