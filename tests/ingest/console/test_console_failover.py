"""A console outlives the host of its gateway: the standby takes over, at another address, and all
goes on there. Tables on an object store are read where they lie."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from chromium import answered
from console_process import Console
from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_peer import Peer
from gateway_process import until
from playwright.sync_api import Page, expect
from s3_server import served

URL = "s3://lake/tables"


def test_operations_go_on_at_the_standby(tmp_path: Path, page: Page) -> None:
    """Not the metrics alone: the same session asks the new owner, which is named."""
    with ShownGateway(tmp_path / "a") as owner:
        standby = ShownGateway(tmp_path / "b")
        standby.home, standby.options = owner.home, ["--standby"]
        standby.spawn()
        with Peer(owner.port) as peer:
            peer.sender("queue://kept", capabilities=("queue",)).publish("a", "b")
        addresses = ("--gateway", f"127.0.0.1:{standby.port}")
        more = (*addresses, "--metrics", f"127.0.0.1:{standby.http_port}")
        with Console(owner, *more) as console:
            page.goto(f"{console.url}/subscription?id=queue/kept")
            expect(page.locator("dl.tiles")).to_contain_text("Backlog2")
            expect(page.locator(".place")).to_have_text(f"127.0.0.1:{owner.port}")
            owner.kill()
            until(lambda: standby.ask("/readyz")[0] == 200, "the standby serves", 60.0, every=0.1)
            # After a failed connect the console tries none for a moment.
            answered(page, f"{console.url}/do/pause?id=queue/kept")
            page.get_by_role("button", name="Pause", exact=True).click()
            expect(page.get_by_role("status")).to_contain_text("queue/kept is paused")
            expect(page.locator("dl.tiles")).to_contain_text("Backlog2")
            expect(page.locator(".place")).to_have_text(f"127.0.0.1:{standby.port}")
        standby.stop()


def test_tables_of_another_gateway_are_not_shown(tmp_path: Path, page: Page) -> None:
    """Their messages would be shown by the wrong gateway's rights, and previews be of other
    messages: it is said instead, and operations say no numbers."""
    with ShownGateway(tmp_path / "a") as mine, ShownGateway(tmp_path / "b") as other:
        for gateway in (mine, other):
            with Peer(gateway.port) as peer:
                peer.sender("queue://same", capabilities=("queue",)).publish("a")
            gateway.await_metric(1, "committed_sequence")
        words = ("--gateway", f"127.0.0.1:{mine.port}", "--home", str(other.home))
        with Console(mine, *words, home=False) as console:
            for path in ("/messages?topic=queue://same", "/messages/0"):
                answer = page.goto(console.url + path)
                assert answer is not None
                assert answer.status == 500
                expect(page.get_by_role("alert")).to_contain_text("isn't the gateway's")
            page.goto(f"{console.url}/subscription?id=queue/same")
            expect(page.get_by_text("isn't the gateway's")).to_be_visible()
            page.goto(f"{console.url}/do/rewind?id=queue/same&to=0")
            expect(page.locator(".effects")).to_contain_text("can't be said from here")
        mine.stop()
        other.stop()


def test_tables_on_an_object_store(
    tmp_path: Path,
    window: Callable[..., Page],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Previews, pages of messages, lives and a subscription's picture, without its home; no audit
    can be run from here, and that is said."""
    settings = {"tables": {"url": URL}, "commit": {"interval_ms": 100}}
    with served() as options:
        for name, value in options.items():
            monkeypatch.setenv(name, value)
        with ShownGateway(tmp_path, settings) as gateway, Peer(gateway.port) as peer:
            queue = peer.receiver("queue://far", capabilities=("queue",))
            sender = peer.sender("queue://far", capabilities=("queue",))
            sender.publish_data([encoded({"n": n}) for n in range(5)])
            queue.confirm(queue.take(2))
            gateway.await_metric(5, "committed_sequence")
            with Console(gateway, "--tables", URL, home=False) as console:
                page = window()
                page.goto(f"{console.url}/do/rewind?id=queue/far&to=0")
                expect(page.locator(".effects")).to_contain_text("It is owed 5 messages from there")
                page.goto(f"{console.url}/messages?topic=queue://far")
                expect(page.locator("tbody tr")).to_have_count(5)
                page.goto(f"{console.url}/messages/0")
                expect(page.locator(".lane")).to_contain_text(
                    re.compile("queue/far.*accepted", re.DOTALL)
                )
                page.goto(f"{console.url}/subscription?id=queue/far")
                expect(page.get_by_text("3 messages wait or are in flight")).to_be_visible()
                page.goto(f"{console.url}/proof")
                expect(page.get_by_text("run it where Spark is")).to_be_visible()
                expect(page.get_by_role("button", name="Run an audit")).to_have_count(0)
            gateway.stop()
