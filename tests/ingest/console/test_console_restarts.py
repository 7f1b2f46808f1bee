"""The console outlives its gateway, and says what it knows from when."""

import http.client
import os

from chromium import answered
from console_process import Console
from gateway_peer import Peer
from gateway_process import PATIENCE, cpu_seconds, until
from playwright.sync_api import Page, expect


def test_a_gateway_that_goes_is_said_and_comes_again(console: Console, page: Page) -> None:
    """The last numbers stay, marked; nothing has to be loaded again."""
    gateway = console.gateway
    peer = Peer(gateway.port)
    peer.sender("queue://kept", capabilities=("queue",)).publish("a", "b")
    peer.drop()
    page.goto(console.url)
    expect(page.get_by_text("queue/kept has 2 messages and no consumer.")).to_be_visible()
    gateway.stop()
    expect(page.get_by_text("No metrics since")).to_be_visible()
    expect(page.get_by_text("The numbers here are of")).to_be_visible()
    expect(page.locator("dl.tiles")).to_have_class("tiles old")
    answer = page.request.get(f"{console.url}/subscription?id=queue/kept")
    assert answer.status == 503
    assert "The gateway doesn&#39;t answer" in answer.text()
    gateway.start()
    expect(page.get_by_text("No metrics since")).to_be_hidden()
    # After a failed connect the console tries none for a moment.
    answered(page, f"{console.url}/queue?name=kept")
    expect(page.locator("dl.tiles")).to_contain_text("Backlog2")


def test_a_console_that_goes_is_said(console: Console, page: Page) -> None:
    """The page stays and says since when; it goes on by itself."""
    page.goto(console.url)
    page.route("**/now/*", lambda route: route.abort())
    expect(page.get_by_role("alert")).to_contain_text("The console doesn't answer since")
    page.unroute("**/now/*")
    expect(page.locator("#lost")).to_be_hidden()


def test_nobody_looks_and_nothing_is_asked(console: Console, page: Page) -> None:
    """Some seconds after the last page the gateway isn't asked any more."""
    page.goto(console.url)
    expect(page.locator("dl.tiles")).to_be_visible()
    page.goto("about:blank")
    assert console.gateway.process is not None
    pid = console.gateway.process.pid

    def quiet() -> bool:
        before = connections(pid)
        return before == 0

    until(quiet, "no connection of the console is open", 90.0, every=0.5)
    assert cpu_seconds(pid) > 0
    assert console.process is not None
    assert os.path.exists(f"/proc/{console.process.pid}")  # noqa: PTH110


def connections(pid: int) -> int:
    """Established TCP connections of a process."""
    with open(f"/proc/{pid}/net/tcp") as table:  # noqa: PTH123
        lines = table.read().splitlines()[1:]
    inodes = {line.split()[9] for line in lines if line.split()[3] == "01"}
    held = set()
    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
        try:
            held.add(os.readlink(f"/proc/{pid}/fd/{name}"))  # noqa: PTH115
        except OSError:
            continue
    return sum(1 for inode in inodes if f"socket:[{inode}]" in held)


def test_other_names_and_methods_are_refused(console: Console) -> None:
    """A page whose name was pointed here reads nothing; nor does what isn't a form."""
    host, _, port = console.url.removeprefix("http://").partition(":")

    def status(method: str, **headers: str) -> int:
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        connection.request(method, "/", headers=headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status

    assert status("GET") == 200
    assert status("GET", Host="rebound.example") == 400
    assert status("PUT") == 400
    assert status("POST", Origin="http://rebound.example") == 400
