"""The first page in a real browser."""

import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
    expect(page.locator("dl.about")).to_contain_text("Log1 messages")
    expect(page.locator(".plot canvas")).to_have_count(4)
    if "CONSOLE_PICTURES" in os.environ:
        with work(console):
            expect(page.locator("[data-columns]")).to_have_attribute(
                "data-points", re.compile("[3-9][0-9]"), timeout=120_000
            )
            picture(page, "now")
    peer.drop()


@contextmanager
def work(console: Console) -> Iterator[None]:
    """Publish and consume meanwhile, up and down."""
    ended = threading.Event()

    def run() -> None:
        with Peer(console.gateway.port) as peer:
            peer.leave(peer.shared_durable("flights", "archive|global"), closed=False)
            consumer = peer.shared_durable("flights", "boards|global")
            sender, nth = peer.sender("flights"), 0
            while not ended.is_set():
                nth += 1
                count = int(60 + 50 * math.sin(nth / 9))
                sender.publish(*(f"flight {nth}.{one}" for one in range(count)))
                consumer.bodies(count)
                ended.wait(0.1)  # the stimulus: not as fast as it can

    worker = threading.Thread(target=run)
    worker.start()
    yield
    ended.set()
    worker.join()
