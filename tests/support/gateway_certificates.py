"""Certificates for tests: an authority, servers, clients, valid or expired."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


def name_of(*common: str) -> x509.Name:
    """A subject with so many common names."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Tests")]
    return x509.Name([*parts, *(x509.NameAttribute(NameOID.COMMON_NAME, one) for one in common)])


class Authority:
    """Signs certificates; each is a pair of PEM files in its folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = name_of(name)
        self.file = folder / f"{name}.pem"
        certificate = self._signed(self._name, self._key, ca=True)
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, file: str, *common: str, days: int = 2, password: bytes = b""
    ) -> tuple[Path, Path]:
        """A certificate with these common names and its key; with negative days it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        chain, key_file = self.folder / f"{file}.pem", self.folder / f"{file}.key"
        certificate = self._signed(name_of(*common), key, days=days)
        chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.BestAvailableEncryption(password)
                if password
                else serialization.NoEncryption(),
            )
        )
        return chain, key_file

    def client(self, files: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """The TLS context of a client that trusts this authority and shows this certificate."""
        context = ssl.create_default_context(cafile=str(self.file))
        if files is not None:
            context.load_cert_chain(*map(str, files))
        return context

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        ca: bool = False,
        days: int = 2,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 5 * DAY)
            .not_valid_after(now + days * DAY)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if not ca:
            localhost = x509.SubjectAlternativeName([x509.DNSName("localhost")])
            builder = builder.add_extension(localhost, critical=False)
        return builder.sign(self._key, hashes.SHA256())
