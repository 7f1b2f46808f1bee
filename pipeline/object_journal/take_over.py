"""How a gateway comes to own a home without a disk: the steps, in the only order that is safe.

The table is the judge: a version of it is made by a put that is refused when somebody else made it.
It says which epochs were claimed, which owner's journal is *live*, and the last group that it has.

1. *Claim.* A version with a new epoch. Former owners can't commit any more, so the table stands
   still, and nothing that it lacks is removed from the live journal.
2. *Close.* The live journal's groups behind the table's last one are taken in, one after the other;
   at the first name that is free a seal is put. The former owner's put or the seal wins that name.
   When a seal stands, the former owner can accept nothing more. The first name behind the table's
   last group is tried before anything is listed: it is free where an owner has handed its home
   over, or nothing was published.
3. *Replay.* What was taken in is committed.
4. *Appoint.* A version that says that the journal of the new epoch is the live one.
5. *Serve.* Only now anything is put there, or accepted.

Whoever finds in 3 or 4 that another one made the version has been overtaken, and stops; what it
sealed stays sealed. Names up to the table's last group mean nothing to anybody, whatever stands
there: they were removed, and a request that comes late may have put something there again. A seal
is never removed, as a former owner may wake at any time and put the group of that name.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from distributary.pipeline.object_journal.entry import Kind


class Standing(msgspec.Struct, frozen=True):
    """What the table says at one version: the last group in it, the highest epoch that was claimed,
    and the epoch whose journal is live (0: none yet)."""

    version: int
    group: int
    epoch: int
    live: int


class Claim(msgspec.Struct, frozen=True):
    """Make the version after `at`, saying that `epoch` is claimed. Answer: `claimed` or, when
    somebody else made that version, `overtaken` with what the table says then."""

    at: Standing
    epoch: int


class Look(msgspec.Struct, frozen=True):
    """List what stands in the live journal. Answer: `listed`."""

    epoch: int


class Seal(msgspec.Struct, frozen=True):
    """Put a seal under this name, unless something stands there, until it is known what does.
    Answer: `stands`."""

    epoch: int
    group: int


class Replay(msgspec.Struct, frozen=True):
    """Commit these groups of the live journal. Answer: `replayed` or `overtaken`."""

    epoch: int
    groups: range


class Appoint(msgspec.Struct, frozen=True):
    """Make the next version, saying that this epoch's journal is the live one. Answer: `appointed`
    or `overtaken`."""

    epoch: int


class Serve(msgspec.Struct, frozen=True):
    """The home is ours: the first group of the new journal is this one."""

    epoch: int
    first_group: int


class Overtaken(msgspec.Struct, frozen=True):
    """Another one is taking the home over, or has."""


Step: TypeAlias = Claim | Look | Seal | Replay | Appoint | Serve | Overtaken


def last_standing(after: int, there: Mapping[int, Kind]) -> int:
    """The one rule of what stands in a journal: the groups behind `after`, the table's last one,
    without a gap, up to the first name that is free or has a seal. What lies behind that is void,
    and was never accepted. The last group that stands; `after` if none does."""
    group = after
    while there.get(group + 1) is Kind.GROUP:
        group += 1
    return group


class TakeOver:
    """The steps of one start. `step` is what is to be done now; each answer leads to the next."""

    def __init__(self, found: Standing) -> None:
        """`found`: what the table says."""
        self._table = found
        self._epoch = found.epoch + 1
        self._there: dict[int, Kind] = {}
        self._looked = False
        self._last = found.group
        self.step: Step = Claim(found, self._epoch)

    def claimed(self) -> None:
        """The version with our claim is made: nobody older commits or removes anything now."""
        if self._table.live:
            self._close()
        else:
            self.step = Appoint(self._epoch)

    def overtaken(self, found: Standing | None = None) -> None:
        """Somebody else made the version that was asked for. A claim is tried again behind it."""
        if isinstance(self.step, Claim) and found is not None:
            self._table, self._last, self._epoch = found, found.group, found.epoch + 1
            self.step = Claim(found, self._epoch)
        else:
            self.step = Overtaken()

    def listed(self, there: Mapping[int, Kind]) -> None:
        """What stands in the live journal, at least of what stood there before it was asked for."""
        self._there.update(there)
        self._looked = True
        self._close()

    def stands(self, kind: Kind) -> None:
        """What stands under the name at which a seal was put: a seal, ours or another's, or the
        group that was put there first."""
        self._there[self._last + 1] = kind
        self._close()

    def _close(self) -> None:
        self._last = last_standing(self._last, self._there)
        if self._last > self._table.group and not self._looked:
            self.step = Look(self._table.live)
        elif self._there.get(self._last + 1) is not Kind.SEAL:
            self.step = Seal(self._table.live, self._last + 1)
        elif self._last > self._table.group:
            self.step = Replay(self._table.live, range(self._table.group + 1, self._last + 1))
        else:
            self.step = Appoint(self._epoch)

    def replayed(self) -> None:
        """All that was taken in is committed."""
        self.step = Appoint(self._epoch)

    def appointed(self) -> None:
        """The version is made: from now on our journal is the live one."""
        self.step = Serve(self._epoch, self._last + 1)
