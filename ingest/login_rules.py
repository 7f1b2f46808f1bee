"""The rules of `[security]` beside its types: what goes together, and that somebody can log in."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.settings import Settings


def rules(settings: "Settings") -> tuple[tuple[bool, str], ...]:
    """Each rule: whether it holds, and the sentence if it doesn't."""
    security = settings.security
    return (
        (
            bool(security.tls_certificate) == bool(security.tls_key),
            "security.tls_certificate and security.tls_key go together",
        ),
        (
            bool(security.tls_certificate) or not security.tls_client_ca,
            "security.tls_client_ca needs security.tls_certificate: certificates come by TLS",
        ),
        (
            bool(security.permissions) or not security.client_ids,
            "security.client_ids needs security.permissions: without them everybody manages all",
        ),
        (security.password_checks_max >= 1, "security.password_checks_max must be positive"),
        (
            bool(security.users or security.tls_client_ca) or settings.anonymous,
            (
                f"nobody could log in at {settings.gateway.listen}: name security.users or "
                "security.tls_client_ca, or set security.anonymous = true to let anybody in"
            ),
        ),
    )
