"""Audits in the console: one is run from the page, a planted fault is shown with its message."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from console_process import Console
from deltalake import DeltaTable
from fork_server import SCRIPT, clean_environment
from gateway_http import ShownGateway
from gateway_management import Manager
from gateway_peer import Peer
from playwright.sync_api import Page, expect
from spark_lender import lent

#: Milliseconds that an audit may take on a busy machine.
AUDIT_MS_MAX = 600_000


def materialize(home: Path) -> None:
    words = [SCRIPT, "jobs", "materialize", "--home", str(home)]
    command, environment = lent(words, clean_environment())
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def judged(shown: ShownGateway) -> ShownGateway:
    """Twenty messages, ten of them settled, and all of it in Spark's tables."""
    peer = Peer(shown.port)
    Manager(peer).done("CREATE", "subscription", "global/s", topic="t")
    peer.sender("t").publish(*range(20))
    link = peer.shared_durable("t", "s|global")
    link.confirm(link.take(10))
    peer.drop()
    shown.stop()
    shown.start()
    materialize(shown.home)
    return shown


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_an_audit_is_run_and_what_it_finds_leads_to_the_message(
    judged: ShownGateway,
    console: Console,
    page: Page,
    window: Callable[..., Page],
    picture: Callable[[Page, str], None],
) -> None:
    """A settlement is gone from a table: the audit names its message. A user who comes meanwhile
    sees that an audit is running, and can't begin another."""
    DeltaTable(judged.home / "tables" / "acks").delete("sequence = 3")
    page.goto(f"{console.url}/proof")
    page.get_by_role("button", name="Run an audit").click()
    expect(page.get_by_text("The audit has begun.")).to_be_visible()
    expect(page.get_by_role("heading", name="An audit is running")).to_be_visible()
    other = window()
    other.goto(f"{console.url}/proof")
    expect(other.get_by_role("button", name="Run an audit")).to_be_disabled()
    expect(page.get_by_text(re.compile("is done: [1-9]"))).to_be_visible(timeout=AUDIT_MS_MAX)
    page.get_by_role("link", name="Show it").click()
    expect(page.get_by_role("row")).to_have_count(2)
    picture(page, "proof")
    page.locator("tbody tr").first.get_by_role("link").click()
    expect(page.locator("tbody")).to_contain_text("below the floor and never settled")
    picture(page, "proof-report")
    page.get_by_role("link", name="message 3").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Message 3")
    assert len(list((judged.home / "audits").iterdir())) == 1
