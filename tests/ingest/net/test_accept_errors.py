"""Errors of the network that `accept` passes on end no connection: the gateway takes the next."""

import errno
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_peer import Connect
from gateway_process import Gateway

Make = Callable[..., Gateway]

#: Errors that accept(2) lists as passed on, that of a system that is exhausted, and one without a
#: known cause.
ERRORS = {
    "passed on": [
        *(errno.ENETDOWN, errno.EPROTO, errno.ENOPROTOOPT, errno.EHOSTDOWN, errno.ENONET),
        *(errno.EHOSTUNREACH, errno.EOPNOTSUPP, errno.ENETUNREACH, errno.ETIMEDOUT, errno.EPERM),
        *(errno.ECONNABORTED, errno.EINTR),
    ],
    "exhausted": [errno.EMFILE],
    "unknown": [errno.EIO],
}


@pytest.mark.parametrize("kind", ERRORS)
def test_an_accept_that_fails_stops_nobody(
    own_gateway: Make, connect: Connect, tmp_path: Path, kind: str
) -> None:
    """Each of the errors, then a client is served."""
    library = tmp_path / "accept.so"
    source = Path(__file__).with_name("accept_faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    gateway = own_gateway()

    gateway.environment = {
        "LD_PRELOAD": str(library),
        "ACCEPT_ERRNOS": ",".join(map(str, ERRORS[kind])),
    }
    gateway.start()
    peer = connect(port=gateway.port)
    peer.sender("t").publish("served")
    told = gateway.events("connection.failed") or gateway.events("connections.waiting")
    assert told, "the errors came, and were told"
    gateway.stop()
