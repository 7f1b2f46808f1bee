"""Connections that may have one container id at the same time.

A JMS client id belongs to one connection (JMS 2.0, section 6.1.2): its client desires the
capability `sole-connection-for-container` in its open. Connections that don't desire it may share
the id, and with it the id's subscriptions, each by its own rule: a shared one gets one more
consumer, an exclusive one is locked while it has a consumer.
"""

from enum import StrEnum

#: The capability by which a client's open says that its container id must be its own.
SOLE_CONNECTION = "sole-connection-for-container"


class Bearers(StrEnum):
    """The connections that have a container id when another one asks for it."""

    NONE = "none"
    SOLE = "sole"  #: one connection, which desires to be the only one
    SHARING = "sharing"  #: connections that don't desire to be the only one


#: (connections with the id, whether the new one desires it alone) -> whether it is let in.
MAY_BEAR: dict[tuple[Bearers, bool], bool] = {
    (Bearers.NONE, False): True,
    (Bearers.NONE, True): True,
    (Bearers.SOLE, False): False,
    (Bearers.SOLE, True): False,
    (Bearers.SHARING, False): True,
    (Bearers.SHARING, True): False,
}


def refused_container(container: str, bearers: Bearers, *, sole: bool) -> str:
    """Return why a connection may not have this container id now; empty if it may."""
    if MAY_BEAR[bearers, sole]:
        return ""
    used = f"container-id '{container}' is in use by another connection"
    return used if bearers is Bearers.SOLE else f"{used}, and this one wants it for itself alone"
