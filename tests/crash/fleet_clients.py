"""Clients of a fleet: each is connected to some gateway, mostly one that doesn't own what it uses,
and goes to another one when that is gone. None waits: a client on its way goes on in its next turn.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from clients import Consumer, Ear, Publisher
from fleet_nodes import Node
from gateway_peer import Peer
from history import Event, History, Lost
from proton import Delivery

#: Seconds until a client tries again where it was refused.
AGAIN_SECONDS = (0.1, 0.5)
#: Seconds that the former gateway's socket may stay open after its process has ended.
SILENT_SECONDS = 15.0


@dataclass(slots=True)
class _Ear:
    """A connection to a gateway that its client has left, with outcomes that may still come.
    `place` is the moment at which the gateway lost the client's log, if it is known."""

    ear: Ear
    node: Node
    place: Event | None
    life: int
    ended: float = 0.0  #: since when its process isn't there


@dataclass(slots=True)
class Traveller:
    """One client, and where it is."""

    client: Publisher | Consumer
    history: History
    draw: random.Random
    at: Node | None = None
    not_before: float = 0.0
    ears: list[_Ear] = field(default_factory=list)
    connections: int = 0

    @property
    def ready(self) -> bool:
        """Whether its gateway has answered all of its links."""
        peer = self.client.peer
        return peer is not None and peer.attached_all and not peer.over

    @property
    def logs(self) -> tuple[str, ...]:
        """The logs that it consumes from, by their words."""
        if not isinstance(self.client, Consumer):
            return ()
        return self.client.subscription.divided or (self.client.subscription.log,)

    def turn(self, nodes: Sequence[Node]) -> None:
        """Go on, at one of these gateways if it has none."""
        self._listen()
        if self.at is None:
            if nodes and time.monotonic() > self.not_before:
                self._go_to(self.draw.choice(nodes))
            return
        self.client.turn()
        if _over(self.client.peer):
            self.part(None)

    def _go_to(self, node: Node) -> None:
        self.connections += 1
        if isinstance(self.client, Publisher):
            self.client.line = f"{self.client.name}/{self.connections}"
        try:
            self.client.connect(node.port, node.host, opened=False)
        except OSError:
            self._later()
        else:
            self.at = node

    def _later(self) -> None:
        self.not_before = time.monotonic() + self.draw.uniform(*AGAIN_SECONDS)

    def part(self, place: Event | None) -> None:
        """Leave a gateway that is gone, or doesn't answer, and listen to what it may still say. A
        consumer's was the owner of its log until that place of the history, if one is given."""
        if self.at is None:
            return
        ear = _Ear(self.client.abandon(), self.at, place, self.at.life)
        if isinstance(self.client, Consumer):
            self.history.add(Lost(self.client.name))
        self.at = None
        self.ears.append(ear)
        self._later()
        self._listen()

    def leave(self) -> None:
        """Go, as a client does that has done its work."""
        if isinstance(self.client, Consumer):
            self.client.leave()
        else:
            self.client.close()
        self.at = None
        self._later()

    def _listen(self) -> None:
        for one in self.ears[:]:
            if one.ear.peer.lost or self._is_silent(one):
                self.ears.remove(one)
                _hear(one, self.history)
            elif not one.node.asleep(one.life):
                one.ear.peer.turn(0.0)

    @staticmethod
    def _is_silent(one: _Ear) -> bool:
        """Its process is gone, and what it had sent has come long ago. Or the other end has closed
        what it has, and waits for us."""
        if _over(one.ear.peer):
            return True
        if not one.node.gone(one.life):
            return False
        one.ended = one.ended or time.monotonic()
        return time.monotonic() > one.ended + SILENT_SECONDS


def _over(peer: Peer | None) -> bool:
    return peer is None or peer.over


def _hear(one: _Ear, history: History) -> None:
    """A confirmation of the other end is a promise, however late it comes."""
    said: list[tuple[Event, Delivery]] = one.ear.said
    for event, delivery in said:
        if not delivery.settled:
            continue
        places = [nth for nth, old in enumerate(history.events) if old is one.place]
        if places:
            history.add_before(places[0], event)
        else:
            history.add(event)
    one.ear.peer.drop()
