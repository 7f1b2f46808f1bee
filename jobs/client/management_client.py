"""Client of a running gateway's `$management`: one connection, one request at a time. It needs
Proton, which executors needn't have."""

import os
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from proton import (
    ConnectionException,
    LinkException,
    Message,
    ProtonException,
    SSLDomain,
    Timeout,
)
from proton import Link as ProtonLink
from proton._handlers import IOHandler
from proton._reactor import GlobalOverrides
from proton.reactor import Container, LinkOption
from proton.utils import BlockingConnection, SendException

from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.errors import DistributaryError, InvalidRequest
from distributary.pipeline.management.management_messages import NODE, Entity, Verb

#: Seconds in which a listener must open an AMQP connection.
OPEN_SECONDS = 10.0
#: Seconds for which a connection is served when no request is made.
BREATH_SECONDS = 0.005


class Unanswered(DistributaryError):
    """The gateway can't be reached, or gave no answer; the message says why."""


class LoginRefused(Unanswered):
    """The gateway refuses this user, or a connection without a user."""


class Refused(DistributaryError):
    """The gateway's refusal: a status of AMQP Management, and its sentence."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway's address, and the user. `certificate` and `key` are files for a login by
    certificate, `authority` is the file of the CA of gateways' certificates; with any of them TLS
    is used."""

    address: str
    user: str = ""
    password: str = field(default="", repr=False)
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    seconds: float = 60.0

    @classmethod
    def at(cls, url: str) -> Self:
        """Return the gateway of `host:port` or `amqp[s]://user:password@host:port`. Raises
        InvalidRequest for other texts; a password is never in its message."""
        parts = urlsplit(url if "://" in url else f"amqp://{url}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname or port == -1:
            shown = parts.netloc.rpartition("@")[2]
            raise InvalidRequest(f"'{shown}' is no gateway: say amqp://user:password@host:port.")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        address = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
        return cls(address, unquote(parts.username or ""), unquote(parts.password or ""))

    @property
    def mechanism(self) -> str:
        """The SASL mechanism of the login."""
        if self.user:
            return "PLAIN"
        return "EXTERNAL" if self.certificate else "ANONYMOUS"

    @property
    def url(self) -> str:
        """The address with the protocol in front."""
        if "://" in self.address:
            return self.address
        secure = self.authority or self.certificate
        return f"{'amqps' if secure else 'amqp'}://{self.address}"

    @property
    def open_seconds(self) -> float:
        """Seconds to wait until it has opened the connection."""
        return min(self.seconds, OPEN_SECONDS)

    @property
    def silent(self) -> str:
        """The error for a listener that hasn't opened the connection."""
        seconds = f"{self.open_seconds:g} s"
        return f"the listener there hasn't opened an AMQP connection within {seconds}"

    def unreached(self, said: str) -> str:
        """Return the sentence for Proton's error of a failed connection: its meaning and remedy."""
        place = self.url.partition("://")[2]
        nobody = "it takes no connection without a login; say --user NAME"
        host = urlsplit(self.url).hostname
        meanings = {
            "no protocol header found": "the listener there doesn't speak AMQP in the clear; if it "
            f"speaks TLS, say amqps://{place}, and --tls-ca FILE for the CA of its certificate",
            "wrong version number": "the listener there doesn't speak TLS; say "
            f"amqp://{place}, for AMQP in the clear",
            "certificate verify failed": f"its certificate isn't one for {host} by an authority "
            "that is known here; --tls-ca FILE names the authority",
            "failed [mech=PLAIN]": f"it doesn't let {self.user!r} in: there is no such user, or "
            "the password is another one",
            "failed [mech=EXTERNAL]": "it takes no login by this certificate",
            "failed [mech=none]": "it takes no passwords there" if self.user else nobody,
        }
        why = next((means for text, means in meanings.items() if text in said), said)
        return f"no gateway answers at {self.url}: {why}"

    def domain(self) -> SSLDomain | None:
        """Return TLS's settings; None without TLS."""
        if not self.url.startswith("amqps:"):
            return None
        domain = SSLDomain(SSLDomain.MODE_CLIENT)
        try:
            if self.certificate:
                domain.set_credentials(str(self.certificate), str(self.key or self.certificate), "")
            if self.authority:
                domain.set_trusted_ca_db(str(self.authority))
        except ProtonException as error:
            raise InvalidRequest(f"a file for TLS can't be used: {error}") from None
        domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
        return domain


#: In the text of Proton's error when a login didn't succeed.
_NO_LOGIN = "amqp:unauthorized-access"


class _TargetOf(LinkOption):
    """Gives a link's target an address."""

    def __init__(self, address: str) -> None:
        self._address = address

    def apply(self, link: ProtonLink) -> None:
        """Called before the link is opened."""
        link.target.address = self._address


class _Container(Container):
    """Proton's container, without the two TLS contexts that it makes for connections without one:
    they are most of the cost of a request. Our connections have `Gateway.domain`."""

    def __init__(self) -> None:
        super().__init__(impl=None)  # leaves out the contexts, and all that is set here
        self.global_handler = GlobalOverrides(IOHandler())
        vars(self).update(dict.fromkeys(("ssl", "trigger", "allowed_mechs", "user", "password")))
        self.container_id = ""
        self.allow_insecure_mechs = self.sasl_enabled = True


@dataclass(frozen=True, slots=True)
class Listed:
    """Entities with all their attributes, and the logs that couldn't be asked, with the reason."""

    rows: list[dict[str, Any]]
    missing: dict[str, str]


class Client:
    """A connection to `$management`, used as a context. Raises Unanswered and Refused."""

    def __init__(self, gateway: Gateway, container: str = "", log: str = "") -> None:
        """`container`: the connection's id, a generated one if empty; `log`: the log of a lake for
        requests that name none; empty: the log of the entity that a request names."""
        self._gateway, self._log = gateway, log
        self._address = f"distributary-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        domain = gateway.domain()
        try:
            self._connection = BlockingConnection(
                gateway.url,
                timeout=gateway.open_seconds,
                container=_Container(),
                ssl_domain=domain,
                container_id=container or self._address,
                user=gateway.user or None,
                password=gateway.password or None,
                allowed_mechs=gateway.mechanism,
            )
            self._connection.timeout = gateway.seconds
            try:
                self._answers = self._connection.create_receiver(
                    NODE, credit=1, options=_TargetOf(self._address)
                )
                self._requests = self._connection.create_sender(NODE)
            except BaseException:
                self._connection.close()
                raise
        except (ConnectionException, LinkException, Timeout, OSError) as error:
            text = gateway.unreached(
                gateway.silent if isinstance(error, Timeout) else _plain(error)
            )
            kind = LoginRefused if _NO_LOGIN in str(error) else Unanswered
            raise kind(text) from None
        except UnicodeEncodeError as error:
            raise _no_utf8(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if it isn't lost."""
        with suppress(ConnectionException, LinkException, Timeout, OSError):
            self._connection.close()

    @property
    def url(self) -> str:
        """The gateway's address, without a login."""
        return self._gateway.url

    def breathe(self) -> None:
        """Exchange heartbeats. A caller with few requests calls this every few seconds: the gateway
        drops peers that are silent for longer (amqp.idle_timeout_ms). Raises Unanswered."""
        try:
            self._connection.wait(lambda: False, timeout=BREATH_SECONDS)
        except Timeout:
            return
        except (ConnectionException, OSError) as error:
            raise Unanswered(f"the gateway ended the connection: {_plain(error)}") from None

    def ask(
        self,
        verb: Verb,
        entity: Entity,
        name: str = "",
        attributes: Mapping[str, object] = {},
        log: str = "",
    ) -> dict[str, Any]:
        """Send a request and return the answer's body; `log`: the log of a lake to ask, if any.
        Raises Refused, Unanswered, InvalidRequest for a text that isn't UTF-8."""
        said = {"operation": verb.value, "type": entity.value}
        if name:
            said["name"] = name
        if log or self._log:
            said["log"] = log or self._log
        body = {key: value for key, value in attributes.items() if value is not None}
        request = Message(
            body=body, properties=said, id=str(uuid.uuid4()), reply_to=self._address, durable=False
        )
        try:
            self._requests.send(request)
            answer = self._answer_to(str(request.id))
        except UnicodeEncodeError as error:
            raise _no_utf8(error) from None
        except SendException as error:
            raise Unanswered(f"the gateway rejected the request: {error}") from None
        except Timeout:
            seconds = f"{self._gateway.seconds:g} s"
            raise Unanswered(
                f"no answer within {seconds}; what was asked may be done yet"
            ) from None
        except (ConnectionException, LinkException, OSError) as error:
            raise Unanswered(f"the gateway ended the connection: {_plain(error)}") from None
        told: dict[str, Any] = answer.properties or {}
        found = answer.body
        status, text = told.get("statusCode"), str(told.get("statusDescription"))
        if not isinstance(status, int) or not isinstance(found, dict):
            raise Unanswered(f"what answers at {self._gateway.url} is no gateway of this kind")
        if status >= 300:
            raise Refused(status, text)
        return {"said": text, **found}

    def _answer_to(self, request: str) -> Message:
        """Return the answer to the request with this id; late answers to earlier ones, which were
        given up, are dropped."""
        until = time.monotonic() + self._gateway.seconds
        while True:
            answer = self._answers.receive(timeout=max(until - time.monotonic(), 0.0))
            self._answers.flow(1)
            if answer.correlation_id == request:
                return answer

    def listed(self, entity: Entity, log: str = "") -> Listed:
        """Return all entities of all logs or of one, as far as the logs could be asked."""
        found, place = Listed([], {}), None
        while True:
            part = self.ask(Verb.QUERY, entity, attributes={"from": place}, log=log)
            names = part["attributeNames"]
            found.rows.extend(dict(zip(names, row, strict=True)) for row in part["results"])
            found.missing.update(part["missing"])
            place = part["next"]
            if place is None:
                return found

    def query(self, entity: Entity, log: str = "") -> list[dict[str, Any]]:
        """Return all entities with all their attributes. Raises Unanswered where a log couldn't be
        asked."""
        found = self.listed(entity, log)
        for name, why in found.missing.items():
            raise Unanswered(f"the log '{name}' can't be asked: {why}")
        return found.rows


def _no_utf8(error: UnicodeEncodeError) -> InvalidRequest:
    """Return the error for a text that can't be sent."""
    return InvalidRequest(f"{quoted(error.object)} can't be sent: it isn't UTF-8")


#: Proton's form of a condition in the text of its errors.
_CONDITION = re.compile(r"Condition\('[^']*', (?:'([^']*)'|\"([^\"]*)\")\)")


def _plain(error: BaseException) -> str:
    """Return Proton's error in one line: the peer's own sentence, if there is one."""
    text = " ".join(str(error).split())
    if said := _CONDITION.search(text):
        return str(said[1] or said[2])
    return text or type(error).__name__
