"""Logins and rights of the console's users: they are the gateway's own."""

from collections.abc import Callable, Iterator

import pytest
from console_process import Console
from gateway_http import ShownGateway
from gateway_management import Manager
from gateway_peer import Peer
from playwright.sync_api import Page, expect

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

PASSWORD = "wonderland"  # noqa: S105 (of users that are there for these tests)
PERMISSIONS = """
[admin]
manage = ["*", "queue://*"]
[alice]
manage = ["queue://hers"]
consume = ["queue://hers", "queue://looks"]
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownGateway]:
    """A gateway with users, who have one password, for once."""
    folder = tmp_path_factory.mktemp("ruled")
    users, permissions = folder / "users.toml", folder / "permissions.toml"
    with changing(users) as known:
        for name in ("admin", "alice", "bob"):
            known[name] = user_of(PASSWORD)
    permissions.write_text(PERMISSIONS)
    security = {"users": str(users), "permissions": str(permissions), "anonymous": False}
    with ShownGateway(folder / "gateway", {"security": security}) as gateway:
        peer = Peer(gateway.port, user="admin", password=PASSWORD)
        manager = Manager(peer)
        for name in ("hers", "looks", "theirs"):
            manager.done("CREATE", "queue", name)
        peer.drop()
        yield gateway


def log_in(page: Page, console: Console, user: str) -> None:
    """Log in, and wait until the user is in: a click before may end the login itself."""
    page.goto(console.url)
    asked_in(page, user)
    expect(page.locator(".user")).to_have_text(user)


def asked_in(page: Page, user: str, password: str = PASSWORD) -> None:
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def test_a_login_is_asked_for(
    console: Console, page: Page, picture: Callable[[Page, str], None]
) -> None:
    """A wrong password is said; a right one leads to the page that was wanted."""
    page.goto(f"{console.url}/queues?search=hers")
    expect(page.get_by_role("heading", level=1)).to_have_text("Distributary")
    picture(page, "login")
    asked_in(page, "alice", "looking-glass")
    expect(page.get_by_role("alert")).to_contain_text("doesn't let this user in")
    asked_in(page, "alice")
    expect(page.get_by_role("link", name="hers")).to_be_visible()
    cookie = page.context.cookies()[0]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    page.goto(f"{console.url}/queues")
    expect(page.get_by_label("Password")).to_be_visible()


def test_only_what_may_be_seen_is_shown(console: Console, page: Page) -> None:
    log_in(page, console, "alice")
    page.goto(f"{console.url}/queues")
    expect(page.locator("tbody th")).to_have_text(["hers", "looks"])
    answer = page.goto(f"{console.url}/subscription?id=queue/theirs")
    assert answer is not None
    assert answer.status in (403, 404)
    page.goto(console.url)
    busy = page.get_by_role("region", name="Subscriptions with most to do")
    expect(busy).to_contain_text("queue/hers")
    expect(busy).not_to_contain_text("theirs")


def test_a_refusal_is_the_gateways_own_sentence(console: Console, page: Page) -> None:
    """She may look at this queue, and not stop it."""
    log_in(page, console, "alice")
    page.goto(f"{console.url}/do/pause?id=queue/looks")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The gateway refuses this")
    expect(page.get_by_role("alert")).to_contain_text("user 'alice'")


def test_a_deed_is_of_the_user(console: Console, page: Page) -> None:
    log_in(page, console, "admin")
    page.goto(f"{console.url}/create?type=queue&id=of-admin")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_text("an operator, admin")).to_be_visible()


def test_two_browsers_are_two_people(console: Console, window: Callable[..., Page]) -> None:
    """And a link from elsewhere finds its reader logged in."""
    one, two = window(), window()
    log_in(one, console, "alice")
    log_in(two, console, "admin")
    one.set_content(f'<a href="{console.url}/queues">there</a>')
    one.get_by_role("link").click()
    expect(one.get_by_role("heading", level=1)).to_have_text("Queues")


def test_a_password_of_before_lets_nobody_in(
    shown: ShownGateway, console: Console, window: Callable[..., Page]
) -> None:
    """Not even beside a user who logged in with it while it was right."""
    inside, late = window(), window()
    log_in(inside, console, "bob")
    with changing(shown.config.parent.parent / "users.toml") as known:
        known["bob"] = user_of("through the looking-glass")
    shown.await_event("security.reloaded")
    late.goto(console.url)
    asked_in(late, "bob")
    expect(late.get_by_role("alert")).to_contain_text("doesn't let this user in")
