"""Operations, each clicked in a real browser; the gateway is asked whether they were done."""

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from chromium import evaluated
from console_process import Console
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import until
from playwright.sync_api import LocatorAssertions, Page, expect
from proton import Delivery


@pytest.fixture
def peer(console: Console) -> Iterator[Peer]:
    made = Peer(console.gateway.port)
    yield made
    made.drop()


@pytest.fixture
def manager(console: Console) -> Iterator[Manager]:
    peer = Peer(console.gateway.port)
    yield Manager(peer)
    peer.drop()


@pytest.fixture
def queue(manager: Manager, peer: Peer, request: pytest.FixtureRequest) -> str:
    """A queue with five messages, all in the table; its name."""
    name = str(request.node.name).removeprefix("test_")
    manager.done("CREATE", "queue", name)
    publish(peer, manager, name, "a", "b", "c", "d", "e")
    return name


def publish(peer: Peer, manager: Manager, queue: str, *bodies: str) -> None:
    """To a queue, and until the table has them: previews read it."""
    peer.sender(f"queue://{queue}", capabilities=("queue",)).publish(*bodies)
    wanted = row(manager, queue)["head"]
    until(lambda: manager.done("READ", "node", "self")["committed"] >= wanted, "a commit")


def row(manager: Manager, queue: str) -> dict[str, object]:
    found = manager.done("READ", "queue", queue)
    assert isinstance(found, dict)
    return found


def opened(page: Page, console: Console, queue: str, button: str) -> None:
    """The page of a queue, and its operation."""
    page.goto(f"{console.url}/queue?name={quote(queue)}")
    page.get_by_label("Operations").get_by_role("link", name=button).click()


def effects(page: Page) -> LocatorAssertions:
    """The effects of the operation that a page foretells; they are waited for."""
    return expect(page.locator(".effects"))


def done(page: Page, button: str, sentence: str) -> None:
    """Say yes; the gateway's sentence is shown."""
    page.get_by_role("button", name=button, exact=True).click()
    expect(page.get_by_role("status")).to_contain_text(sentence)


def test_pause_and_resume(console: Console, page: Page, manager: Manager, queue: str) -> None:
    opened(page, console, queue, "Pause")
    effects(page).to_contain_text("5 messages wait already")
    effects(page).not_to_contain_text("at most")
    done(page, "Pause", f"queue/{queue} is paused")
    assert row(manager, queue)["paused"]
    expect(page.get_by_text("It is paused: 5 messages wait")).to_be_visible()
    page.get_by_role("link", name="Resume").click()
    effects(page).to_contain_text("5 messages wait for 0 consumers")
    done(page, "Resume", f"queue/{queue} goes on")
    assert not row(manager, queue)["paused"]


def test_rewind_says_before_what_comes_again(
    console: Console,
    page: Page,
    peer: Peer,
    manager: Manager,
    queue: str,
    picture: Callable[[Page, str], None],
) -> None:
    consumer = peer.receiver(f"queue://{queue}", capabilities=("queue",))
    floor = int(str(row(manager, queue)["floor"]))
    consumer.bodies(5)
    peer.leave(consumer, closed=True)
    opened(page, console, queue, "Rewind")
    page.get_by_label("Back to").fill(str(floor))
    page.get_by_role("button", name="What will it do?").click()
    effects(page).to_contain_text(f"now and will be {floor:,}.")
    effects(page).to_contain_text(
        "It is owed 5 messages from there on: 5 more than the 0 that wait now."
    )
    picture(page, "rewind")
    typed(page, f"queue/{queue}", "Rewind")
    done(page, "Rewind", "is owed what lies from there on")
    assert row(manager, queue)["floor"] == floor
    assert row(manager, queue)["backlog"] == 5


def test_a_place_that_is_none_is_said(console: Console, page: Page, queue: str) -> None:
    """Nothing can be pressed then."""
    opened(page, console, queue, "Rewind")
    page.get_by_label("Back to").fill("yesterday")
    page.get_by_role("button", name="What will it do?").click()
    expect(page.get_by_role("alert")).to_contain_text("'yesterday' is no place in the log")
    expect(page.get_by_role("button", name="Rewind", exact=True)).to_have_count(0)


def test_skip_drops_what_lies_before(
    console: Console, page: Page, manager: Manager, queue: str
) -> None:
    floor = int(str(row(manager, queue)["floor"]))
    opened(page, console, queue, "Skip")
    page.get_by_label("Ahead to").fill(str(floor + 2))
    page.get_by_role("button", name="What will it do?").click()
    effects(page).to_contain_text("Dropped: 2 messages; 3 of its backlog stay")
    typed(page, f"queue/{queue}", "Skip")
    done(page, "Skip", "messages dropped: 2")
    assert row(manager, queue)["backlog"] == 3


def typed(page: Page, name: str, button: str) -> None:
    """The button can't be pressed before the name is typed, letter by letter."""
    pressed = page.get_by_role("button", name=button, exact=True)
    expect(pressed).to_be_disabled()
    page.get_by_label("Type").fill(name[:-1])
    expect(pressed).to_be_disabled()
    page.get_by_label("Type").fill(name)
    expect(pressed).to_be_enabled()


def unguarded(page: Page) -> None:
    """Enable the button, as a user of the browser's tools can."""
    expect(page.locator("button[data-guarded]")).to_be_disabled()
    evaluated(page, "document.querySelector('button[data-guarded]').disabled = false")
    evaluated(page, "document.querySelector('[data-confirm]').required = false")


def test_purge_is_typed(
    console: Console,
    page: Page,
    manager: Manager,
    queue: str,
    picture: Callable[[Page, str], None],
) -> None:
    opened(page, console, queue, "Purge")
    effects(page).to_contain_text(
        "Dropped: 5 messages: it is owed only messages that come from now on"
    )
    picture(page, "purge")
    typed(page, f"queue/{queue}", "Purge")
    done(page, "Purge", "messages dropped: 5")
    assert row(manager, queue)["backlog"] == 0


def test_redrive_sends_dead_letters_back(
    console: Console, page: Page, peer: Peer, manager: Manager, queue: str
) -> None:
    """All, or so many."""
    consumer = peer.receiver(f"queue://{queue}", capabilities=("queue",))
    consumer.confirm(consumer.take(3), Delivery.REJECTED)
    peer.leave(consumer, closed=True)
    opened(page, console, queue, "Redrive")
    effects(page).to_contain_text(f"Dead letters in DLQ.queue/{queue}: 3. Going back: 3.")
    page.get_by_label("At most").fill("2")
    page.get_by_role("button", name="What will it do?").click()
    effects(page).to_contain_text("Going back: 2.")
    done(page, "Redrive", "2 went back")
    assert row(manager, f"DLQ.queue/{queue}")["backlog"] == 1


def test_a_policy_says_what_changes(
    console: Console, page: Page, manager: Manager, queue: str
) -> None:
    manager.done("UPDATE", "queue", queue, policy={"lock_ms": 10, "consumers_max": 3})
    opened(page, console, queue, "Policy")
    box = page.get_by_label("Its own policy")
    expect(box).to_have_value("consumers_max=3\nlock_ms=10")
    box.fill("lock_ms=20\ndelivery_attempts_max=5")
    page.get_by_role("button", name="What will it do?").click()
    expect(page.locator(".effects li")).to_have_text(
        [
            "consumers_max: 3 no more, but the file's value or the default.",
            "delivery_attempts_max: 5 from now on.",
            "lock_ms: 20 instead of 10.",
        ]
    )
    done(page, "Set the policy", "has another policy")
    assert row(manager, queue)["policy"] == {"lock_ms": 20, "delivery_attempts_max": 5}
    line = page.locator(".policy tr", has_text="lock_ms")
    expect(line).to_contain_text("its own")


def test_a_policy_that_drops_is_typed(
    console: Console,
    page: Page,
    manager: Manager,
    queue: str,
    picture: Callable[[Page, str], None],
) -> None:
    """It says how many at once; what a browser sends without the name is left undone."""
    opened(page, console, queue, "Policy")
    box = page.get_by_label("Its own policy")
    box.fill("backlog_messages_max=2\nbacklog_overflow=drop_oldest")
    page.get_by_role("button", name="What will it do?").click()
    effects(page).to_contain_text(
        "Of more than 2 messages the oldest are dropped, 3 of them at once"
    )
    picture(page, "policy")
    unguarded(page)
    page.get_by_role("button", name="Set the policy", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was done")
    assert row(manager, queue)["policy"] == {}
    page.go_back()
    typed(page, f"queue/{queue}", "Set the policy")
    done(page, "Set the policy", "has another policy")
    until(lambda: row(manager, queue)["backlog"] == 2, "the oldest are dropped")


def test_links_are_closed(
    console: Console, page: Page, peer: Peer, manager: Manager, queue: str
) -> None:
    """One of two by its own button, then all that are left."""
    consumers = [
        peer.receiver(f"queue://{queue}", name=name, capabilities=("queue",))
        for name in ("first", "second")
    ]
    first, second = consumers
    first.take(2)
    name = next(one["name"] for one in row(manager, queue)["links"] if "first" in one["name"])
    page.goto(f"{console.url}/subscription?id={quote(f'queue/{queue}')}")
    page.get_by_role("link", name=f"Close {name}").click()
    effects(page).to_contain_text("Ended with amqp:link:detach-forced: 1 link")
    effects(page).to_contain_text("to the next consumer: 2 messages")
    done(page, "Close the links", "1 links have ended")
    assert "detach-forced" in peer.amqp_error(first)
    assert row(manager, queue)["consumers"] == 1
    page.get_by_role("link", name="Close links").click()
    page.get_by_label("Of this consumer alone").fill("nobody")
    page.get_by_role("button", name="What will it do?").click()
    expect(page.get_by_role("alert")).to_have_text("It has no consumer 'nobody'.")
    page.get_by_label("Of this consumer alone").fill("")
    page.get_by_role("button", name="What will it do?").click()
    effects(page).to_contain_text("Ended with amqp:link:detach-forced: 1 link")
    done(page, "Close the links", "1 links have ended")
    assert "detach-forced" in peer.amqp_error(second)
    assert row(manager, queue)["consumers"] == 0


def test_delete_is_typed(console: Console, page: Page, manager: Manager, queue: str) -> None:
    opened(page, console, queue, "Delete")
    effects(page).to_contain_text("Dropped: 5 messages")
    typed(page, f"queue/{queue}", "Delete")
    done(page, "Delete", f"queue/{queue} has been deleted; messages dropped: 5")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    manager.refused(404, "READ", "queue", queue)


def test_what_is_typed_is_looked_at_here_too(
    console: Console, page: Page, manager: Manager, queue: str
) -> None:
    """Without the name in a browser's form nothing is done."""
    opened(page, console, queue, "Purge")
    unguarded(page)
    page.get_by_role("button", name="Purge", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("nothing was done")
    assert row(manager, queue)["backlog"] == 5


def test_a_subscription_is_made(
    console: Console, page: Page, manager: Manager, peer: Peer, queue: str
) -> None:
    """With what waits for it from the past; then its topic is ended."""
    topic = f"{queue}-topic"
    peer.sender(topic).publish("x")
    page.goto(f"{console.url}/subscriptions")
    page.get_by_role("link", name="New subscription").click()
    page.get_by_label("Id, such as").fill("global/made")
    page.get_by_label("Topic, or").fill(topic)
    page.get_by_label("Selector").fill("n > 1")
    page.get_by_label("Its own policy").fill("delivery_attempts_max=4")
    page.get_by_role("button", name="What will it do?").click()
    effects(page).to_contain_text(
        f"global/made is owed all that is published to {topic} that fits n > 1."
    )
    done(page, "Make it", "global/made has been made")
    found = manager.done("READ", "subscription", "global/made")
    assert (found["selector"], found["policy"]) == ("n > 1", {"delivery_attempts_max": 4})
    page.goto(f"{console.url}/topic?name={quote(topic)}")
    page.get_by_role("link", name="Delete").click()
    typed(page, topic, "Delete")
    done(page, "Delete", "1 durable subscriptions have ended")
    manager.refused(404, "READ", "subscription", "global/made")


def test_a_queue_is_made(console: Console, page: Page, manager: Manager) -> None:
    page.goto(f"{console.url}/queues")
    page.get_by_role("link", name="New queue").click()
    page.get_by_label("Name").fill("made here")
    page.get_by_role("button", name="What will it do?").click()
    done(page, "Make it", "has been made")
    assert row(manager, "made here")["origin"] == "operator"
    page.get_by_role("link", name="Queues").first.click()
    expect(page.get_by_role("link", name="made here")).to_be_visible()


def test_a_form_of_somebody_else_does_nothing(
    console: Console, page: Page, manager: Manager, queue: str
) -> None:
    """Without the session's token, and from another site's page."""
    page.goto(f"{console.url}/do/purge?id=queue/{queue}")
    told = evaluated(
        page,
        """async (path) => {
            const typed = new URLSearchParams(location.search).get("id");
            const body = new URLSearchParams({typed});
            return (await fetch(path, {method: "POST", body})).status;
        }""",
        f"/do/purge?id=queue/{queue}",
    )
    assert told == 400
    answer = page.request.post(
        f"{console.url}/do/purge?id=queue/{queue}",
        form={"typed": f"queue/{queue}"},
        headers={"origin": "http://evil.example"},
    )
    assert answer.status == 400
    assert "wasn't sent from a page of this console" in answer.text()
    assert row(manager, queue)["backlog"] == 5
