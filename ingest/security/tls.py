"""TLS from PEM files, tried before it is used."""

import ssl
from pathlib import Path

from distributary.ingest.runtime.settings import Security
from distributary.pipeline.errors import InvalidRequest

#: Rounds in which two ends in memory must complete a handshake; three are enough.
_ROUNDS_MAX = 10


def context_of(security: Security, *, certificates_needed: bool) -> ssl.SSLContext | None:
    """Return the TLS context of new connections, or None where TLS isn't configured.

    A peer is asked for a certificate where `security.tls_client_ca` says who may sign it, and must
    have one where no other login is possible. Raises InvalidRequest with one sentence when a file
    can't be read, key and certificate don't fit, or the certificate isn't valid today.
    """
    if not security.tls_certificate:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(security.tls_certificate, security.tls_key, _no_password)
    except (OSError, ValueError) as error:
        raise InvalidRequest(_sentence(security, error)) from None
    _try(context, security)
    if security.tls_client_ca:
        try:
            context.load_verify_locations(security.tls_client_ca)
        except (OSError, ValueError) as error:
            raise InvalidRequest(
                f"security.tls_client_ca {security.tls_client_ca}: {error}"
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED if certificates_needed else ssl.CERT_OPTIONAL
    return context


def certified_user(tls: ssl.SSLObject) -> str:
    """Return the user that a peer's verified certificate names: its subject's common name, as is.
    Empty when it showed none, or one with no common name or more than one."""
    certificate = tls.getpeercert()
    subject = certificate.get("subject", ()) if certificate else ()
    # A subject is a sequence of sequences of (key, value).
    names = [pair[1] for part in subject for pair in part if pair[0] == "commonName"]
    return str(names[0]) if len(names) == 1 else ""


def _no_password() -> str:
    raise ValueError("the key is encrypted; the gateway can't ask for its password")


def _sentence(security: Security, error: Exception) -> str:
    files = [security.tls_certificate, security.tls_key]
    if isinstance(error, ssl.SSLError):
        reason = f"they can't be used: {error.reason or error}"
    elif isinstance(error, OSError):
        # The error doesn't say which of the two.
        files = [file for file in files if not _readable(file)]
        reason = str(error.strerror)
    else:
        reason = str(error)
    return f"security.tls_certificate, security.tls_key: {', '.join(files)}: {reason}"


def _readable(path: str) -> bool:
    try:
        Path(path).open("rb").close()
    except OSError:
        return False
    return True


def _try(context: ssl.SSLContext, security: Security) -> None:
    """Let a client in memory check the certificate: its dates, and that its key signs for it."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the certificate itself is trusted
    ends = []
    try:
        client.load_verify_locations(security.tls_certificate)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [
            client.wrap_bio(to_client, to_server),
            context.wrap_bio(to_server, to_client, server_side=True),
        ]
        for _ in range(_ROUNDS_MAX):
            for end in ends:
                _shake(end)
    except ssl.SSLCertVerificationError as error:
        raise InvalidRequest(
            f"security.tls_certificate {security.tls_certificate}: {error.verify_message}"
        ) from None
    except ssl.SSLError as error:
        raise InvalidRequest(
            f"security.tls_certificate {security.tls_certificate}: no client could use it: {error}"
        ) from None


def _shake(end: ssl.SSLObject) -> None:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return
