"""Two gateways that a network has parted: by Proton's own clocks, whose time is an argument."""

import pytest
from proton import Connection, Transport

from distributary.ingest.security.gateway_login import gateway_login

LEASE_MS = 3_000
#: Of the clocks' turns.
STEP_MS = 10


class End:
    """One side of the connection, that drops the other after so long a silence."""

    def __init__(self, server: bool, silence_ms: int) -> None:
        self.transport = Transport(Transport.SERVER if server else Transport.CLIENT)
        self.transport.idle_timeout = silence_ms / 1_000
        self.connection = Connection()
        self.transport.bind(self.connection)
        self.connection.open()

    def says(self) -> bytes:
        size = self.transport.pending()
        said = self.transport.peek(size) if size > 0 else b""
        self.transport.pop(len(said))
        return said or b""

    def ticks(self, at_ms: int) -> bool:
        """Whether the other side's silence is over its limit."""
        self.transport.tick(at_ms / 1_000)
        return self.transport.condition is not None


@pytest.mark.parametrize("parted_ms", range(2 * LEASE_MS, 3 * LEASE_MS, 130))
@pytest.mark.parametrize("later_ms", [0, 400])
def test_a_gateway_has_given_an_owner_up_before_that_one_gives_its_messages_to_others(
    parted_ms: int, later_ms: int
) -> None:
    """This holds for each time at which the network fails, and each phase of the heartbeats.
    Messages on their way to the gateway that come when the network is whole again are dropped."""
    login = gateway_login("orders", "secret", LEASE_MS)
    gateway, owner = End(server=False, silence_ms=LEASE_MS), End(True, login.silence_ms)
    given_up: list[End] = []
    for at_ms in range(1_000, 60_000, STEP_MS):
        for one, other, begins_ms in (gateway, owner, 0), (owner, gateway, later_ms):
            if at_ms < begins_ms or one in given_up:
                continue
            if one.ticks(at_ms):
                given_up.append(one)
            elif (said := one.says()) and at_ms < parted_ms:
                other.transport.push(said)
        if len(given_up) == 2:
            break
    assert given_up == [gateway, owner]
