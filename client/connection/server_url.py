"""Server and login from a broker's URL and arguments: `amqp[s]://user:password@host:port`."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from distributary.client.connection.sendable import check_text
from distributary.pipeline.errors import InvalidRequest

#: Ports of AMQP without and with TLS (IANA).
PORT, TLS_PORT = 5672, 5671


@dataclass(frozen=True, slots=True)
class Identity:
    """The user of a login. Without a user the login is by certificate (EXTERNAL), or ANONYMOUS.
    `mechanism`: the only SASL mechanism to use, whatever the other side offers."""

    user: str = ""
    password: str = field(default="", repr=False)
    certified: bool = False
    mechanism: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """One broker's address, TLS context and login."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    identity: Identity

    @property
    def url(self) -> str:
        """The URL without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqps' if self.tls else 'amqp'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Files:
    """PEM files for TLS: the broker's certificate authority, the client's certificate and key."""

    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def any(self) -> bool:
        return bool(self.authority or self.certificate)

    def context(self) -> ssl.SSLContext:
        """Return a context that verifies the broker's certificate and name. Raises
        InvalidRequest."""
        try:
            context = ssl.create_default_context(cafile=self.authority)
            if self.certificate:
                context.load_cert_chain(self.certificate, self.key, _no_password)
        except (OSError, ValueError) as error:
            names = [str(file) for file in (self.authority, self.certificate, self.key) if file]
            said = getattr(error, "strerror", None) or error
            raise InvalidRequest(f"TLS can't use {', '.join(names)}: {said}") from None
        return context


def server_of(url: str, user: str, password: str, files: Files) -> Server:
    """Parse a URL or `host:port`. Raises InvalidRequest, never with a password in it."""
    whole = url if "://" in url else f"{'amqps' if files.any else 'amqp'}://{url}"
    try:
        whole.encode()
        parts = urlsplit(whole)
        port = parts.port
    except ValueError:  # no UTF-8, brackets that hold no address, or no number of a port
        port, parts = -1, urlsplit("")
    secure = parts.scheme == "amqps"
    right = parts.scheme in ("amqp", "amqps") and parts.hostname and port != -1
    if not right or parts.path not in ("", "/") or parts.query or parts.fragment:
        scheme, _, rest = whole.partition("://")
        shown = f"{scheme}://{rest.rpartition('@')[2].partition('?')[0].partition('#')[0]}"
        raise InvalidRequest(
            f"'{shown}' is no broker's URL: say amqp[s]://user:password@host:port, with characters "
            "such as @ and / in a password percent-encoded"
        )
    if files.any and not secure:
        raise InvalidRequest(f"files for TLS are given, and {whole.partition('://')[0]}:// has no "
                             "TLS: say amqps://")  # fmt: skip
    user, password = (user, password) if user else _login(parts.username, parts.password)
    check_text("a user", user)
    check_text("a password", password, secret=True)
    return Server(
        str(parts.hostname),
        port or (TLS_PORT if secure else PORT),
        files.context() if secure else None,
        Identity(user, password, certified=bool(files.certificate)),
    )


def _login(user: str | None, password: str | None) -> tuple[str, str]:
    return unquote(user or ""), unquote(password or "")


def _no_password() -> str:
    raise ValueError("the key is encrypted, and its password isn't asked for")
