"""Trials of a failing conversation: gateways on which parts of it are played, one after the other,
as long as one of them has nothing to say.
"""

import time
from types import TracebackType
from typing import Self

from fuzz_minimise import smaller
from fuzz_round import Finding, Place, Tried
from fuzz_transcript import Act, Drop, Hear, Say

#: Seconds that making a failing conversation small may take.
SECONDS_MAX = 180.0
#: Findings that show at the gateway's end alone, or to the witness.
AT_THE_END, BY_THE_WITNESS = "its end isn't clean", "the witness"


class Trials:
    """Gateways for trials; a finding counts if it is of this kind."""

    def __init__(self, place: Place, kind: str) -> None:
        self._place, self._kind = place, kind
        self._gateway: Tried | None = None
        self._deadline = time.monotonic() + SECONDS_MAX

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._over()

    def small(self, recent: list[list[Act]]) -> tuple[list[Act], bool]:
        """The least of the last conversations that fails, and whether any of them does again."""
        for count in (1, 4, len(recent)):
            acts = together(recent[-count:])
            if self.fails(acts):
                return smaller(acts, self.fails), True
        return together(recent), False

    def fails(self, acts: list[Act]) -> bool:
        """Whether a gateway has anything of the kind to say of it. No, when time is over."""
        if time.monotonic() > self._deadline:
            return False
        try:
            gateway = self._ready()
            gateway.converse(acts)
            if self._kind in (AT_THE_END, BY_THE_WITNESS):
                gateway.end()
        except Finding as finding:
            self._over()
            return finding.kind == self._kind
        if self._kind in (AT_THE_END, BY_THE_WITNESS):
            self._over()
        return False

    def _ready(self) -> Tried:
        if self._gateway is None:
            self._gateway = Tried(self._place, witnessed=self._kind == BY_THE_WITNESS)
            self._gateway.__enter__()
        return self._gateway

    def _over(self) -> None:
        if self._gateway is not None:
            self._gateway.__exit__(None, None, None)
            self._gateway = None


def together(conversations: list[list[Act]]) -> list[Act]:
    """Conversations one after the other, as one: each has connections of its own."""
    acts: list[Act] = []
    for number, one in enumerate(conversations):
        for act in one:
            connection = act.connection + 10 * number
            match act:
                case Say(_, data):
                    acts.append(Say(connection, data))
                case Hear():
                    acts.append(Hear(connection))
                case Drop():
                    acts.append(Drop(connection))
    return acts
