"""Files of a gateway with users, permissions and TLS, and the stores of its Java clients."""

import sys
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from gateway_certificates import Authority

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

#: Of Java's stores, which won't be without.
STORE_PASSWORD = b"secret"
PASSWORDS = {"alice": "wonderland", "worker": "b=ee, zz"}
PERMISSIONS = """
[alice]
publish = ["*", "queue://*"]
consume = ["*", "queue://*"]
create = ["*", "queue://*", "temp-queue://*"]
[worker]
publish = ["open"]
consume = ["open"]
"""


def secured(folder: Path) -> Mapping[str, Mapping[str, object]]:
    """The settings of a gateway; the files that they name, and `trust.p12` and `alice.p12` for its
    clients, are made in the folder. A client that has logged in may take longer than the login."""
    folder.mkdir()
    users, permissions = folder / "users.toml", folder / "permissions.toml"
    with changing(users) as known:
        known.update({name: user_of(password) for name, password in PASSWORDS.items()})
    permissions.write_text(PERMISSIONS)
    authority = Authority(folder)
    chain, key = authority.issue("server", "gateway")
    _java_stores(folder, authority, authority.issue("alice", "alice"))
    return {
        "amqp": {"handshake_ms_max": 4_000},
        "security": {
            "users": str(users),
            "permissions": str(permissions),
            "anonymous": False,
            "tls_certificate": str(chain),
            "tls_key": str(key),
            "tls_client_ca": str(authority.file),
        },
    }


def _java_stores(folder: Path, authority: Authority, client: tuple[Path, Path]) -> None:
    sealed = BestAvailableEncryption(STORE_PASSWORD)
    trusted = x509.load_pem_x509_certificate(authority.file.read_bytes())
    entry = pkcs12.PKCS12Certificate(trusted, b"authority")
    (folder / "trust.p12").write_bytes(pkcs12.serialize_java_truststore([entry], sealed))
    certificate = x509.load_pem_x509_certificate(client[0].read_bytes())
    key = serialization.load_pem_private_key(client[1].read_bytes(), None)
    (folder / "alice.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"alice", key, certificate, [trusted], sealed)
    )
