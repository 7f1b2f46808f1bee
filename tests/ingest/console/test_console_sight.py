"""Messages beyond a user's rights are on no page, and look like messages that don't exist."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import evaluated
from console_process import Console
from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Peer
from playwright.sync_api import Page, expect
from test_console_messages import committed

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

PERMISSIONS = """
[clerk]
consume = ["orders", "news"]
[warden]
manage = ["*", "queue://*"]
[auditor]
consume = ["orders"]
manage = ["*", "queue://*"]
[boss]
consume = ["*", "queue://*"]
publish = ["*", "queue://*"]
create = ["*", "queue://*"]
manage = ["*", "queue://*"]
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownGateway]:
    """A clerk reads orders alone; a warden manages all and reads nothing, an auditor orders."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    users, permissions = folder / "users.toml", folder / "permissions.toml"
    with changing(users) as known:
        for name in ("clerk", "warden", "auditor", "boss"):
            known[name] = user_of("x")
    permissions.write_text(PERMISSIONS)
    settings = {"security": {"users": str(users), "permissions": str(permissions)}}
    with ShownGateway(folder, settings) as running:
        boss = Peer(running.port, user="boss", password="x")  # noqa: S106
        manager = Manager(boss)
        manager.done("CREATE", "subscription", "global/s", topic="orders")
        manager.done("CREATE", "subscription", "global/all", topic="#")
        for topic in ("orders", "salaries"):
            boss.sender(topic).publish_data([encoded(f"of {topic}")])
        committed(running, 2)
        boss.drop()
        yield running


@pytest.fixture
def as_user(console: Console, window: Callable[..., Page]) -> Callable[[str], Page]:
    def log_in(user: str) -> Page:
        page = window()
        page.goto(f"{console.url}/login")
        page.get_by_label("User").fill(user)
        page.get_by_label("Password").fill("x")
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_title("Now · Distributary")
        return page

    return log_in


def test_messages_and_lives(as_user: Callable[[str], Page], console: Console) -> None:
    lanes = {"clerk": [1, 0], "boss": [2, 1], "warden": [0, 0]}
    for user, sees in (("clerk", {0}), ("boss", {0, 1}), ("warden", set[int]())):
        page = as_user(user)
        for sequence, topic in enumerate(("orders", "salaries")):
            page.goto(f"{console.url}/messages?topic={topic}")
            rows = page.locator("table.messages tbody tr")
            if sequence in sees:
                expect(rows).to_have_count(1)
            else:
                expect(page.get_by_role("alert")).to_contain_text("no topic or queue")
            answer = page.goto(f"{console.url}/messages/{sequence}")
            expect(page.locator("article.lane")).to_have_count(lanes[user][sequence])
            if sequence not in sees:
                expect(page.get_by_role("alert")).to_contain_text("or you may not see it")
                assert answer is not None
                assert "of salaries" not in answer.text()
            elif user == "clerk":
                expect(page.get_by_text("1 more subscriptions aren't shown")).to_be_visible()


def test_of_a_pattern_those_topics_that_one_may_read(
    as_user: Callable[[str], Page], console: Console
) -> None:
    for user, count in (("boss", 2), ("auditor", 1), ("warden", 0)):
        page = as_user(user)
        page.goto(f"{console.url}/messages?subscription=global/all")
        if count:
            expect(page.locator("table.messages tbody tr")).to_have_count(count)
        else:
            expect(page.get_by_text("There are none.")).to_be_visible()
    page = as_user("clerk")
    page.goto(f"{console.url}/messages?subscription=global/all")
    expect(page.get_by_role("alert")).to_contain_text("or you may not see it")


def test_an_audit_is_for_those_who_manage_all(
    as_user: Callable[[str], Page], console: Console
) -> None:
    """It reads everything: others have no button, and what they send all the same is refused."""
    warden = as_user("warden")
    warden.goto(f"{console.url}/proof")
    expect(warden.get_by_role("button", name="Run an audit")).to_be_enabled()
    clerk = as_user("clerk")
    clerk.goto(f"{console.url}/proof")
    expect(clerk.get_by_role("button", name="Run an audit")).to_have_count(0)
    answer = evaluated(
        clerk,
        """async () => {
          const form_token = document.querySelector("[name=form_token]").value;
          const body = new URLSearchParams({form_token});
          const answer = await fetch("/proof/start", {method: "POST", body});
          return [answer.status, await answer.text()];
        }""",
    )
    assert answer[0] == 403
    assert "an audit is for users who may manage every topic and queue" in answer[1]
    assert not (console.gateway.home / "audits").exists()
