"""Access: logins and permissions, from files that may change while the gateway runs.

There are four parts: the users, the permissions, the owned names, TLS. Each is read again when one
of its files changes (looked at once a second) and on SIGHUP. A new version that can't be used is
reported, and the old one stays. A new version holds from the next connection, login and attach on;
connected peers stay connected.
"""

import asyncio
import ssl
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import structlog

from distributary.ingest.runtime.settings import Settings
from distributary.ingest.runtime.watched import Part, Watch
from distributary.ingest.security.gateway_login import GATEWAY, GatewayLogin
from distributary.ingest.security.handshake import Handshake, Offer
from distributary.ingest.security.scram import MECHANISM, ScramKeys, decoy
from distributary.ingest.security.tls import certified_user, context_of
from distributary.ingest.security.users import ANONYMOUS, Users, new_secret
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions import owned_names, permission
from distributary.pipeline.subscriptions.owned_names import NameKind, OwnedNames
from distributary.pipeline.subscriptions.permission import EVERYBODY, Permissions
from distributary.pipeline.subscriptions.rights import Rights, UserOperation, actions_of

T = TypeVar("T")

_events = structlog.get_logger("gateway")


class AccessFiles:
    """The last usable versions of the four parts. A process has them once, from its start on; each
    of its event loops has an `Access` of its own."""

    def __init__(self, settings: Settings) -> None:
        """Raises InvalidRequest when a file can't be used."""
        security = settings.security
        self.secret = secret = new_secret()
        self.users = Part("users", (security.users,), lambda: _users(security.users, secret))
        self.permissions = Part(
            "permissions", (security.permissions,), lambda: _permissions(security.permissions)
        )
        self.names = Part("client_ids", (security.client_ids,), lambda: _names(security.client_ids))
        alone = not security.users and not settings.anonymous
        self.tls = Part(
            "tls",
            (security.tls_certificate, security.tls_key, security.tls_client_ca),
            lambda: context_of(security, certificates_needed=alone),
        )


class Access:
    """Permissions of peers, by the present content of the files."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, settings: Settings, files: AccessFiles
    ) -> None:
        self._loop = loop
        self._gateway: GatewayLogin | None = None
        self._anonymous, self._loopback = settings.anonymous, settings.gateway.loopback
        self._secret, self._users, self._permissions = files.secret, files.users, files.permissions
        self._names, self._tls = files.names, files.tls
        security = settings.security
        self._checks = ThreadPoolExecutor(security.password_checks_max, "login")
        self._watch = Watch(loop, self.look)
        if not self._loopback:
            _warn(settings)

    @property
    def rights(self) -> Rights:
        """The rights of all users at this moment."""
        return Rights(self._permissions.value, self._names.value)

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self._tls.value

    def handshake(self, transport: asyncio.BaseTransport) -> Handshake:
        """Return the handshake of a new connection, with the mechanisms that can succeed."""
        tls = transport.get_extra_info("ssl_object")
        certified = certified_user(tls) if tls is not None else ""
        nobodys = certified in (ANONYMOUS, EVERYBODY, GATEWAY)
        return Handshake(self._offer("" if nobodys else certified))

    def _offer(self, certified: str) -> Offer:
        users = self._users.value
        # For clients of this machine that insist on a password.
        anybody = users is None and self._anonymous and self._loopback
        known = users is not None and bool(users.by_name)
        can_work = {
            "EXTERNAL": bool(certified),
            "SCRAM-SHA-256": users is not None and users.scram,
            "PLAIN": known or anybody,
            "ANONYMOUS": self._anonymous,
        }
        names = tuple(name for name, works in can_work.items() if works)
        return Offer(
            names,
            check=not anybody,
            keys=self._keys if users is not None or self._gateway is not None else None,
            certified=certified,
            accepted=(MECHANISM,) if self._gateway is not None else (),
        )

    def _keys(self, name: str) -> ScramKeys:
        """Return the SCRAM keys of a user or of other gateways."""
        if self._gateway is not None and name == GATEWAY:
            return self._gateway.keys
        users = self._users.value
        return users.keys(name) if users is not None else decoy(self._secret, name)

    def admit_gateways(self, gateway: GatewayLogin) -> None:
        """Let other gateways of the lake log in from now on."""
        self._gateway = gateway

    def trusted(self, user: str) -> GatewayLogin | None:
        """Return the trust in another gateway that relays links; None for all other users."""
        return self._gateway if user == GATEWAY else None

    def amqp_error(
        self,
        user: str,
        operation: UserOperation,
        topic: str,
        key: SubscriptionKey | None = None,
        former: str = "",
    ) -> AmqpError | None:
        """Return None when the user may do this, else the error for its peer; as
        `Rights.amqp_error`."""
        amqp_error = self.rights.amqp_error(user, operation, topic, key, former)
        if amqp_error is not None:
            _events.info(
                "permission.refused",
                user=user,
                topic=topic,
                operation=operation.value,
                actions=actions_of(operation),
            )
        return amqp_error

    def unnamed(self, user: str, client_id: str) -> str | None:
        """Return why the user's connection may not have this client id; None if it may."""
        if self._names.value.may_use(user, NameKind.CLIENT_ID, client_id):
            return None
        _events.info("client_id.refused", user=user, client_id=client_id)
        return f"client id '{client_id}' may not be used by user '{user}' (security.client_ids)"

    def verify(self, user: str, password: str) -> "asyncio.Future[bool]":
        """Begin to check a password; the caller cancels it if the connection ends meanwhile."""
        users = self._users.value or Users({}, b"")
        # It takes long on purpose, and leaves the interpreter alone while it does.
        return self._loop.run_in_executor(self._checks, users.verify, user, password)

    def watch(self) -> None:
        """Begin to watch the files."""
        self._watch.start()

    def close(self) -> None:
        self._watch.close()
        self._checks.shutdown(wait=False, cancel_futures=True)

    def look(self) -> None:
        """Read the files again that have changed."""
        self._renew(anyway=False)

    def reload(self) -> None:
        """Read all files again, changed or not."""
        self._renew(anyway=True)

    def _renew(self, *, anyway: bool) -> None:
        for part in (self._users, self._permissions, self._names, self._tls):
            try:
                if not part.renew(anyway=anyway):
                    continue
            except InvalidRequest as error:
                _events.warning(
                    "security.kept", part=part.name, reason=str(error), then="the old version holds"
                )
                continue
            _events.info("security.reloaded", part=part.name)


def _warn(settings: Settings) -> None:
    """Warn of settings that are allowed, but unsafe."""
    if settings.anonymous:
        _events.warning("security.open", then="every client that reaches this address is let in")
    if not settings.security.tls_certificate:
        _events.warning("security.cleartext", then="the network can read and change all traffic")


def _users(file: str, secret: bytes) -> Users | None:
    return Users.read(Path(file), secret) if file else None


def _permissions(file: str) -> Permissions:
    return _parsed("permissions", file, permission.parse) if file else permission.EVERYTHING


def _names(file: str) -> OwnedNames:
    return _parsed("client ids", file, owned_names.parse) if file else owned_names.ANYBODYS


def _parsed(what: str, file: str, parse: Callable[[Mapping[str, object]], T]) -> T:
    try:
        return parse(tomllib.loads(Path(file).read_text()))
    except OSError as error:
        raise InvalidRequest(f"{what} file {file} can't be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, InvalidRequest) as error:
        raise InvalidRequest(f"{what} file {file}: {error}") from None
