"""The number of connections for which the process has file descriptors."""

import resource

import structlog

_events = structlog.get_logger("gateway")

#: Descriptors that the journal, the tables and the rest may need at once, with those of connections
#: that are accepted only to be refused.
OWN_DESCRIPTORS = 384


def room_for(connections_max: int) -> int:
    """Return `connections_max`, or fewer where the system allows fewer open files: a gateway that
    can't open its own files would have to stop."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max + OWN_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    room = connections_max if soft == resource.RLIM_INFINITY else soft - OWN_DESCRIPTORS
    if room < connections_max:
        room = max(room, 1)
        _events.warning(
            "connections.fewer",
            connections_max=room,
            wanted=connections_max,
            then="the system allows no more open files (ulimit -n)",
        )
    return min(room, connections_max)
