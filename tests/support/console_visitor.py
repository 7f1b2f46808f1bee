"""A client of the console that is no browser, and keeps no rule that browsers keep."""

import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')


@dataclass
class Answered:
    """The answer to one request."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class Visitor:
    """Requests one by one, with a cookie if it has one. Redirects aren't followed."""

    url: str
    cookie: str = ""
    #: Sent with each request, beside those of a call.
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answered:
        """`headers` have `_` for `-`."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        sent = {**self.headers, **{name.replace("_", "-"): said for name, said in headers.items()}}
        if self.cookie:
            sent["Cookie"] = self.cookie
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            text = answer.read().decode()
            found = {name.lower(): said for name, said in answer.getheaders()}
        finally:
            connection.close()
        if (made := found.get("set-cookie", "").partition(";")[0]).partition("=")[2]:
            self.cookie = made
        return Answered(answer.status, found, text)

    def get(self, path: str) -> Answered:
        return self.ask("GET", path)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answered:
        """A form, from a page of the console if `headers` don't say otherwise."""
        sent = {"Origin": self.url, "Content_Type": "application/x-www-form-urlencoded", **headers}
        return self.ask("POST", path, urlencode(fields).encode(), **sent)

    def token(self) -> str:
        """The token of its session's forms."""
        found = _TOKEN.search(self.get("/create?type=queue&id=x").text)
        assert found, "no page has a form"
        return found[1]

    def log_in(self, user: str, password: str) -> None:
        answer = self.post("/login", {"user": user, "password": password, "to": "/"})
        assert answer.status == 303, answer.text
