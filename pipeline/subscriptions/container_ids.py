"""Which connections may bear one container id at the same time.

A JMS client id is its connection's alone (JMS 2.0, section 6.1.2). A client says so: it desires the
capability `sole-connection-for-container` in its open. Who doesn't may share the id with others
that don't, and with it the id's subscriptions, each by its own rule: a shared one has one more
consumer, an exclusive one is locked while it has its consumer.
"""

from enum import StrEnum

#: The capability by which a client's open says that its container id must be its own.
SOLE_CONNECTION = "sole-connection-for-container"


class Bearers(StrEnum):
    """The connections that have a container id when one more comes with it."""

    NONE = "none"
    SOLE = "sole"  #: one, which desires to be the only one
    SHARING = "sharing"  #: some, of which none desires that


#: (who has the id, whether who comes desires it alone) -> whether it is let in.
MAY_BEAR: dict[tuple[Bearers, bool], bool] = {
    (Bearers.NONE, False): True,
    (Bearers.NONE, True): True,
    (Bearers.SOLE, False): False,
    (Bearers.SOLE, True): False,
    (Bearers.SHARING, False): True,
    (Bearers.SHARING, True): False,
}


def refused_container(container: str, bearers: Bearers, *, sole: bool) -> str:
    """Why a connection may not have this container id now; empty if it may."""
    if MAY_BEAR[bearers, sole]:
        return ""
    used = f"container-id '{container}' is in use by another connection"
    return used if bearers is Bearers.SOLE else f"{used}, and this one wants it for itself alone"
