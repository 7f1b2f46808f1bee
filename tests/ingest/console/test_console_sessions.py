"""Sessions, forms, addresses and settings of the console."""

from pathlib import Path

import pytest
from starlette.datastructures import Headers

from distributary.ingest.console.asking.gateway_line import GatewayLine
from distributary.ingest.console.asking.sweeps import Sweeps
from distributary.ingest.console.pages.login_pages import own_path
from distributary.ingest.console.settings.console_settings import SessionSettings, load
from distributary.ingest.console.web.request_guard import host_allowed, refusal
from distributary.ingest.console.web.sessions import Account, Sessions
from distributary.ingest.console.web.visit import FIELDS_MAX, form_fields
from distributary.jobs.client.management_client import Gateway
from distributary.pipeline.errors import InvalidRequest

NAMES = frozenset({"console.example"})


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def account(user: str = "") -> Account:
    asking = load().asking
    line = GatewayLine([Gateway("127.0.0.1:1")], 1, 1)
    return Account((Gateway("127.0.0.1:1", user),), line, Sweeps(line, asking, 1))


def test_who_is_logged_in_stays_longest() -> None:
    """Sessions without a login make room first."""
    clock = Clock()
    sessions = Sessions(SessionSettings(2, 60, 2, 1), clock)
    one = sessions.begin(account("alice"))
    clock.now = 1
    two, three = sessions.begin(account()), sessions.begin(account())
    assert [sessions.find(each.key) for each in (one, two, three)] == [one, None, three]


def test_a_password_is_in_no_text() -> None:
    assert "secret" not in repr(Gateway("127.0.0.1:1", "alice", "secret"))


def test_a_session_ends_when_it_is_idle_or_old() -> None:
    clock = Clock()
    sessions = Sessions(SessionSettings(10, 60, 2, 1), clock)
    one = sessions.begin(account())
    clock.now = 3_000
    assert sessions.find(one.key) is one
    clock.now = 3_000 + 3_601
    assert sessions.find(one.key) is None
    two = sessions.begin(account())
    for minutes in range(0, 120, 30):
        clock.now = 6_601 + minutes * 60
        assert sessions.find(two.key) is two
    clock.now = 6_601 + 2 * 3_600 + 1
    assert sessions.find(two.key) is None


def test_there_are_so_many_sessions() -> None:
    """The one that was silent for longest makes room."""
    clock = Clock()
    sessions = Sessions(SessionSettings(2, 60, 2, 1), clock)
    one, two = sessions.begin(account()), sessions.begin(account())
    clock.now = 1
    sessions.find(one.key)
    three = sessions.begin(account())
    assert [sessions.find(each.key) for each in (one, two, three)] == [one, None, three]


def test_keys_can_not_be_guessed_and_forms_are_ones_own() -> None:
    sessions = Sessions(SessionSettings(2, 60, 2, 1), Clock())
    one, two = sessions.begin(account()), sessions.begin(account())
    assert len({one.key, two.key, one.form_token, two.form_token}) == 4
    assert len(one.key) >= 40
    assert one.is_form_token(one.form_token)
    assert not one.is_form_token(two.form_token)
    assert not one.is_form_token("")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8161", True),
        ("[::1]:8161", True),
        ("10.1.2.3", True),
        ("localhost:8161", True),
        ("console.example", True),
        ("Console.Example:80", True),
        ("evil.example:8161", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
        ("[evil]", False),
    ],
)
def test_a_console_is_known_by_its_names(host: str, allowed: bool) -> None:
    assert host_allowed(host, NAMES) is allowed


@pytest.mark.parametrize(
    ("origin", "length", "taken"),
    [
        ("http://127.0.0.1:1", "10", True),
        ("https://127.0.0.1:1", "10", True),
        ("http://127.0.0.1:2", "10", False),
        ("null", "10", False),
        ("", "10", False),
        ("http://127.0.0.1:1", "", False),
        ("http://127.0.0.1:1", "101", False),
    ],
)
def test_forms_come_from_here_and_are_small(origin: str, length: str, taken: bool) -> None:
    headers = Headers({"host": "127.0.0.1:1", "origin": origin, "content-length": length})
    assert (refusal("POST", headers, NAMES, 100) == "") is taken


@pytest.mark.parametrize(
    ("to", "path"),
    [
        ("/queues?search=a", "/queues?search=a"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("queues", "/"),
        ("", "/"),
    ],
)
def test_a_login_leads_to_pages_of_this_console(to: str, path: str) -> None:
    assert own_path(to) == path


def test_what_is_no_form_is_said() -> None:
    assert form_fields(b"a=1&b=%C3%A9&c=") == {"a": "1", "b": "é", "c": ""}
    for body in (b"\xff\xfe", b"&".join(b"a=1" for _ in range(FIELDS_MAX + 1))):
        with pytest.raises(InvalidRequest, match="no form"):
            form_fields(body)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[pages]\nrows = 0", "pages.rows must be 1 at least"),
        ("[pages]\nrow = 1", "row"),
        ("[asking]\npoll_part = 2.0", "asking.poll_part must be above 0"),
        ("[pages", "is not TOML"),
    ],
)
def test_settings_that_can_not_be_are_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "console.toml"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match=said):
        load(file)
    with pytest.raises(InvalidRequest, match="can't be read"):
        load(tmp_path / "absent.toml")
