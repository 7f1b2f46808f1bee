"""Attacks on consoles, each once: forms of other sites, planted sessions, frames, markup in names
and messages, odd paths, oversized forms, and actions by users without the right to them."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from chromium import evaluated
from console_process import Console
from console_visitor import Answered, Visitor
from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Peer
from playwright.sync_api import Page, expect
from proton import Delivery, symbol

from distributary.ingest.console.insight.previews import OFFERS, Offer
from distributary.ingest.console.pages.site import NAVIGATION, PAGES
from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

PASSWORD = "x"  # noqa: S105 (of users that are there for these tests)
PERMISSIONS = """
[boss]
consume = ["*", "queue://*"]
publish = ["*", "queue://*"]
create = ["*", "queue://*"]
manage = ["*", "queue://*"]
[reader]
consume = ["queue://open"]
[maker]
create = ["*", "queue://*"]
"""
MESSAGES = 5
#: In names and messages: markup, attributes, scripts, templates.
EVIL = (
    "<img src=x onerror=window.gone=1>",
    "\"'><script>window.gone=1</script>",
    "</title></textarea><svg onload=window.gone=1>",
    "{{7*7}}{% raw %}${7*7}",
    "javascript:window.gone=1//",
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownGateway]:
    """A queue that the reader may read, and one that only the boss may know of."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    users, permissions = folder / "users.toml", folder / "permissions.toml"
    with changing(users) as known:
        for name in ("boss", "reader", "maker", "nobody"):
            known[name] = user_of(PASSWORD)
    permissions.write_text(PERMISSIONS)
    security = {"users": str(users), "permissions": str(permissions), "anonymous": False}
    settings = {"security": security, "commit": {"interval_ms": 50}}
    with ShownGateway(folder, settings) as running:
        with Peer(running.port, user="boss", password=PASSWORD) as peer:
            manager = Manager(peer)
            for name in ("open", "closed"):
                manager.done("CREATE", "queue", name)
                sender = peer.sender(f"queue://{name}", capabilities=("queue",))
                sender.publish(*range(MESSAGES))
        running.await_metric(2 * MESSAGES, "committed_sequence")
        yield running
        running.stop()


@pytest.fixture
def somebody(console: Console) -> Callable[[str], Visitor]:
    def log_in(user: str) -> Visitor:
        visitor = Visitor(console.url)
        visitor.log_in(user, PASSWORD)
        return visitor

    return log_in


@pytest.fixture
def boss(shown: ShownGateway) -> Iterator[Manager]:
    with Peer(shown.port, user="boss", password=PASSWORD) as peer:
        yield Manager(peer)


def fields_of(offer: Offer, name: str) -> dict[str, str]:
    """The fields that its form sends."""
    said = {"to": "0", "max": "1", "policy": "lock_ms=1", "consumer": ""}
    shown = OFFERS[offer]
    return {"typed": name, **({shown.field: said[shown.field]} if shown.field else {})}


def state(boss: Manager, queue: str) -> dict[str, object]:
    row = boss.done("READ", "queue", queue)
    assert isinstance(row, dict)
    return {key: row[key] for key in ("backlog", "floor", "paused", "policy", "origin")}


@pytest.mark.parametrize("offer", list(Offer))
def test_no_action_without_the_right_to_it(
    offer: Offer, somebody: Callable[[str], Visitor], boss: Manager
) -> None:
    """The addresses are called with a form of one's own, everything typed. A user who may read the
    queue is refused; to one who may not know of it the answer is that of an absent queue."""
    for user in ("reader", "nobody"):
        visitor = somebody(user)
        token = {"form_token": visitor.token()}
        for queue in ("open", "closed"):
            before, name = state(boss, queue), f"queue/{queue}"
            path = f"/do/{offer.value}?id={quote(name)}"
            answer = visitor.post(path, {**fields_of(offer, name), **token})
            assert answer.status in (403, 404), answer.text
            assert state(boss, queue) == before
            if (user, queue) == ("reader", "open"):
                assert answer.status == 403
                continue
            absent = path.replace(queue, "absent")
            fields = {**fields_of(offer, "queue/absent"), **token}
            assert plain(visitor.post(absent, fields), "absent") == plain(answer, queue)
            looked = visitor.get(path)
            assert looked.status in (403, 404)
            assert plain(visitor.get(absent), "absent") == plain(looked, queue)


def plain(answer: Answered, name: str) -> tuple[int, str]:
    """Status and content of an answer, with NAME for the queue's name."""
    return answer.status, answer.text.partition("<main")[2].replace(name, "NAME")


def test_nothing_is_made_or_ended_without_the_right_to_it(
    somebody: Callable[[str], Visitor], boss: Manager
) -> None:
    visitor = somebody("reader")
    token = {"form_token": visitor.token()}
    for fields in (
        {"type": "queue", "id": "mine"},
        {"type": "subscription", "id": "global/mine", "topic": "open", "since": "0"},
    ):
        assert visitor.post("/create", {**fields, **token}).status == 403
    boss.refused(404, "READ", "queue", "mine")
    boss.refused(404, "READ", "subscription", "global/mine")
    ended = {"typed": "open", **token}
    assert visitor.post("/do/delete-topic?id=open", ended).status in (403, 404)
    assert visitor.post("/proof/start", token).status == 403
    assert state(boss, "open")["backlog"] == MESSAGES


def test_a_preview_counts_only_what_one_may_know_of(somebody: Callable[[str], Visitor]) -> None:
    """A user who may make subscriptions of a topic, and not read it, isn't told how many messages
    were sent to it."""
    path = "/create?type=subscription&id=global/spy&since=0&topic="
    for user, topic, told in (
        ("maker", "queue://closed", False),
        ("reader", "queue://closed", False),
        ("reader", "queue://open", True),
        ("boss", "queue://closed", True),
        ("boss", "pattern://%23", True),
        ("reader", "pattern://%23", False),
    ):
        text = somebody(user).get(path + topic).text
        assert "It begins at sequence 0" in text
        assert ("messages wait" in text) is told, (user, topic)


def test_who_has_no_session_gets_nothing(console: Console, boss: Manager) -> None:
    """Every page leads to the login, every part says no, every form is left undone."""
    visitor = Visitor(console.url)
    for page in PAGES:
        path = page.path.format(offer="purge", sequence="0", name="x") + "?id=queue/open"
        answer = visitor.post(path, {}) if page.method == "POST" else visitor.get(path)
        assert answer.status == (401 if page.is_part else 303), page.path
        if not page.is_part:
            assert answer.headers["location"].startswith("/login?to=/")
        assert "open" not in answer.text
    assert not visitor.cookie
    assert state(boss, "open")["backlog"] == MESSAGES


def test_forms_of_other_sites_are_not_taken(
    console: Console, somebody: Callable[[str], Visitor], boss: Manager
) -> None:
    """With the cookie of a session and even with its token; also the login and the logout: no user
    is made to be another one."""
    visitor = somebody("boss")
    token = {"form_token": visitor.token()}
    purge = {"typed": "queue/open", **token}
    host = console.url.removeprefix("http://")
    origins = ("null", "http://evil.example", f"http://evil.example@{host}", f"{console.url}0", "")
    for origin in origins:
        for path, fields in (
            ("/do/purge?id=queue/open", purge),
            ("/login", {"user": "reader", "password": PASSWORD}),
            ("/logout", token),
        ):
            answer = visitor.post(path, fields, Origin=origin)
            assert (answer.status, "set-cookie" in answer.headers) == (400, False), (origin, path)
    for fields in ({}, {"form_token": ""}, {"form_token": somebody("reader").token()}):
        assert (
            visitor.post("/do/purge?id=queue/open", {**purge, **fields}).status
            == (303 if not fields else 400)
            or not fields
        )
    assert visitor.get("/queues").status == 200, "the session goes on"


def test_a_planted_session_is_not_taken_over(
    console: Console, somebody: Callable[[str], Visitor]
) -> None:
    """A key that an attacker has made up, or got by a login of their own, is no session after the
    victim's login; an old key ends with the login and with the logout."""
    probe = somebody("reader")
    name = probe.cookie.partition("=")[0]
    planted = Visitor(console.url, cookie=f"{name}=of-the-attacker")
    assert planted.get("/queues").status == 303
    planted.log_in("boss", PASSWORD)
    assert planted.cookie != f"{name}=of-the-attacker"
    assert Visitor(console.url, cookie=f"{name}=of-the-attacker").get("/queues").status == 303
    before = probe.cookie
    probe.log_in("boss", PASSWORD)
    assert probe.cookie != before
    assert Visitor(console.url, cookie=before).get("/queues").status == 303
    last = probe.cookie
    assert probe.post("/logout", {"form_token": probe.token()}).status == 303
    assert Visitor(console.url, cookie=last).get("/queues").status == 303


def test_no_answer_may_be_framed_sniffed_or_kept(
    console: Console, somebody: Callable[[str], Visitor]
) -> None:
    """Pages, parts, assets, redirects, refusals and what isn't there."""
    visitor = somebody("boss")
    paths = (
        *(path for _, path, _ in NAVIGATION),
        "/login",
        "/nowhere",
        "/now/columns",
        "/assets/x",
    )
    answers = [visitor.get(path) for path in (*paths, "/queue?name=open", "/messages/nonsense")]
    answers += [visitor.ask("PUT", "/"), visitor.post("/logout", {}, Origin="null")]
    assert {one.status for one in answers} == {200, 303, 400, 404}
    for one in answers:
        policy = one.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert one.headers["x-frame-options"] == "DENY"
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["cache-control"] == "no-store"


ODD_PATHS = (
    "/assets/../../../../etc/passwd",
    "/assets/..%2f..%2fconsole.js",
    "/assets/%2e%2e/templates/layout.html",
    "/assets/console.js",
    "//evil.example/",
    "/messages/-1",
    "/messages/1e3",
    "/messages/%00",
    "/messages/" + "9" * 5_000,
    "/messages/\N{FULLWIDTH DIGIT ONE}",
    "/messages?topic=queue://open&since=9999-12-31T23:59:59-23:59",
    "/do/rewind?id=queue/open&to=9999-12-31T23:59:59-23:59",
    "/create?type=subscription&id=global/a&topic=b&since=9999-12-31T23:59:59-23:59",
    "/create?type=subscription&id=global/a&topic=$management&since=0",
    "/messages?topic=queue://open&since=0001-01-01T00:00:00%2B23:59",
    "/messages?topic=queue://open&at=" + "9" * 4_400,
    "/messages?topic=queue://open&selector=" + "(" * 5_000,
    "/messages?subscription=" + "%25" * 300,
    "/proof/..%2f..%2flock",
    "/proof/..%2f..%2f..%2fetc%2fpasswd",
    "/do/__class__?id=queue/open",
    "/do/purge?id=",
    "/do/purge?id=queue/%00",
    "/do/rewind?id=queue/open&to=" + "9" * 5_000,
    "/do/redrive?id=queue/open&max=-1",
    "/do/policy?id=queue/open&policy=" + "[" * 5_000,
    "/do/policy?id=queue/open&policy=backlog_messages_max=x%0Abacklog_overflow=drop_oldest",
    "/do/policy?id=queue/open&policy=backlog_age_ms_max=1e400%0Abacklog_overflow=drop_oldest",
    "/subscription?id=%2e%2e/%2e%2e",
    "/subscription/picture?id=queue/open&hours=99999999",
    "/queues?page=99999999999999999999&sort=__class__",
    "/queues/part?search=" + "a" * 8_000,
    "/now/columns?after=nan",
    "/now/columns?after=inf",
    "/now/words?plot=__class__",
    "/create?type=subscription&id=a&topic=b&since=" + "9" * 5_000,
)


@pytest.mark.parametrize("path", ODD_PATHS, ids=[one[:40] for one in ODD_PATHS])
def test_odd_paths_are_answered(path: str, somebody: Callable[[str], Visitor]) -> None:
    """Never by a file of the machine, a redirect elsewhere, or a bug."""
    answer = somebody("boss").get(quote(path, safe="/?&=%:+#"))
    assert answer.status in (200, 303, 400, 404), answer.text
    assert "root:" not in answer.text
    assert "bug" not in answer.text
    assert answer.headers.get("location", "/").startswith("/")
    assert not answer.headers.get("location", "/").startswith("//")


def test_forms_have_a_size(somebody: Callable[[str], Visitor], boss: Manager) -> None:
    """Too many bytes, too many fields, no length, no text: each is refused and nothing done."""
    visitor = somebody("boss")
    sent = {"Origin": visitor.url, "Content_Type": "application/x-www-form-urlencoded"}
    path = "/do/pause?id=queue/open"
    token = f"form_token={visitor.token()}".encode()
    for body in (
        token + b"&a=" + b"x" * 70_000,
        token + b"&" + b"&".join(b"a=1" for _ in range(300)),
        token + b"&a=\xff\xfe",
        b"",
    ):
        answer = visitor.ask("POST", path, body, **sent)
        assert answer.status == 400, body[:80]
    chunked = visitor.ask("POST", path, b"0\r\n\r\n", Transfer_Encoding="chunked", **sent)
    assert chunked.status == 400
    assert not state(boss, "open")["paused"]
    assert visitor.ask("GET", "/", None, X=("y" * 40_000)).status in (400, 431)


def test_a_login_leads_nowhere_else(console: Console) -> None:
    for to in (
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "/\t/evil.example",
        "\r\nx: y",
    ):
        fields = {"user": "boss", "password": PASSWORD, "to": to}
        answer = Visitor(console.url).post("/login", fields)
        assert answer.status == 303
        where = answer.headers["location"]
        assert where.startswith("/")
        assert not where.startswith(("//", "/\\")), where
        assert "x" not in answer.headers


@pytest.fixture(scope="module")
def evil(shown: ShownGateway) -> Iterator[dict[str, str]]:
    """Everything that a peer may name or send has markup in it; where to look at it."""
    with Peer(shown.port, EVIL[1], user="boss", password=PASSWORD) as peer:
        manager, topic, queue = Manager(peer), EVIL[0], EVIL[2]
        taker = peer.shared_durable(topic, f"{EVIL[3]}|global")
        manager.done(
            "CREATE",
            "subscription",
            f"global/{quote(EVIL[4], safe='')}",
            topic=topic,
            selector=f"a = '{EVIL[0].replace(chr(39), chr(39) * 2)}'",
        )
        head = int(manager.done("READ", "node", "self")["head"])
        everywhere = {
            "subject": EVIL[0],
            "reply_to": EVIL[1],
            "content_type": "text/html",
            "correlation_id": EVIL[1],
            "group_id": EVIL[2],
            "properties": {one: one for one in EVIL},
            "annotations": {symbol("x-opt-" + EVIL[2]): EVIL[1]},
        }
        deep = "[" * 900 + "]" * 900
        bodies = (
            *EVIL,
            f'{{"{EVIL[0].replace(chr(34), "")}": "</script>{EVIL[3]}"}}',
            {EVIL[0]: [EVIL[1], {EVIL[2]: EVIL[3]}]},
            EVIL[1].encode(),
            deep,
            "[" * 60_000,
            "9" * 20_000,
            b"\x00\xff" * 40_000,
        )
        sender = peer.sender(topic)
        sender.publish_data([encoded(body, **everywhere, id=EVIL[0]) for body in bodies])
        sender.publish_data([encoded("late", expiry_time=2**51, creation_time=2**50)])
        peer.sender(f"queue://{queue}", capabilities=("queue",)).publish_data(
            [encoded(EVIL[0], **everywhere)]
        )
        taken = taker.take(3)
        taker.confirm(taken[:1], Delivery.REJECTED)
        total = head + len(bodies) + 3
        shown.await_metric(total, "committed_sequence")
        [subscription] = [
            row["name"]
            for row in rows_of(manager)
            if quote(EVIL[3], safe="") in row["name"] and row["name"].startswith("global/")
        ]
        yield {
            "topic": topic,
            "queue": queue,
            "subscription": subscription,
            "first": str(head),
            "total": str(total),
        }


def rows_of(manager: Manager) -> list[dict[str, str]]:
    part = manager.done("QUERY", "subscription", "", attributeNames=["name"])
    return [dict(zip(part["attributeNames"], one, strict=True)) for one in part["results"]]


def test_markup_in_names_and_messages_is_text(
    evil: dict[str, str], console: Console, page: Page
) -> None:
    """On every page where it is shown; the policy that forbids scripts isn't needed once."""
    page.goto(console.url)
    page.get_by_label("User").fill("boss")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_title("Now · Distributary")
    topic, name = quote(evil["topic"]), quote(evil["subscription"], safe="")
    queue = quote(evil["queue"], safe="")
    paths = [
        "/",
        "/subscriptions",
        "/queues",
        "/topics",
        f"/topic?name={topic}",
        f"/subscription?id={name}",
        f"/queue?name={queue}",
        f"/messages?topic={topic}",
        f"/messages?subscription={name}",
        f"/messages?topic={topic}&selector={quote(EVIL[1])}",
        f"/do/rewind?id={name}&to={quote(EVIL[0])}",
        f"/do/policy?id={name}&policy={quote(EVIL[2])}%3D{quote(EVIL[1])}",
        f"/do/close?id={name}&consumer={quote(EVIL[1])}",
        f"/do/delete?id={name}",
        f"/do/delete-topic?id={topic}",
        f"/create?type=subscription&id={quote(EVIL[1])}&topic={quote(EVIL[2])}&selector={quote(EVIL[0])}",
        f"/queues?search={quote(EVIL[1])}",
        f"/login?to={quote(EVIL[1])}",
        *(f"/messages/{one}" for one in range(int(evil["first"]), int(evil["total"]))),
    ]
    for path in paths:
        answer = page.goto(console.url + path)
        assert answer is not None
        assert answer.status in (200, 400, 404), (path, answer.status)
        if path.startswith("/subscription?"):
            expect(page.get_by_text("Where it stands")).to_be_visible()
        markup = page.locator("img[src=x], main script, svg[onload], title > *")
        assert evaluated(page, "window.gone") is None, path
        expect(markup, path).to_have_count(0)
        expect(page.locator("[onerror], [onload], a[href^='javascript']"), path).to_have_count(0)
        expect(page).not_to_have_title(re.compile("49"))
