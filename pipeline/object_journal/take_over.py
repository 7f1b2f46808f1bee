"""How a gateway comes to own a home without a disk: the steps, in the only order that is safe.

The table decides: a version of it is made by a put that is refused when another process made it.
It records which epochs were claimed, which owner's journal is *live*, and its last group.

1. *Claim.* A version with a new epoch. Former owners can't commit any more, so the table doesn't
   change, and no group that it lacks is removed from the live journal.
2. *Close.* The live journal's groups behind the table's last one are taken in, one after the other;
   at the first free name a seal is put. Either the former owner's put or the seal gets that name.
   When the seal is stored, the former owner can accept nothing more. The first name behind the
   table's last group is tried before a listing: it is free where an owner has handed its home over,
   or nothing was published.
3. *Replay.* The groups that were taken in are committed.
4. *Appoint.* A version that makes the journal of the new epoch the live one.
5. *Serve.* Only now entries are put into the new journal, and groups accepted.

A gateway that finds in 3 or 4 that another process made the version has been overtaken, and stops;
its seal stays. Entries up to the table's last group don't count, whatever they are: they were
removed, and a late request may have put one again. A seal is never removed, as a former owner may
wake at any time and put the group of that name.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from distributary.pipeline.object_journal.entry import Kind


class Standing(msgspec.Struct, frozen=True):
    """The content of one version of the table: the last group in it, the highest claimed epoch, and
    the epoch whose journal is live (0: none yet)."""

    version: int
    group: int
    epoch: int
    live: int


class Claim(msgspec.Struct, frozen=True):
    """Make the version after `at` that claims `epoch`. Answer: `claimed` or, when another process
    made that version, `overtaken` with the table's new content."""

    at: Standing
    epoch: int


class Look(msgspec.Struct, frozen=True):
    """List the live journal. Answer: `listed`."""

    epoch: int


class Seal(msgspec.Struct, frozen=True):
    """Put a seal under this name, unless an entry has it, until it is known which entry is there.
    Answer: `stands`."""

    epoch: int
    group: int


class Replay(msgspec.Struct, frozen=True):
    """Commit these groups of the live journal. Answer: `replayed` or `overtaken`."""

    epoch: int
    groups: range


class Appoint(msgspec.Struct, frozen=True):
    """Make the next version, which makes this epoch's journal the live one. Answer: `appointed` or
    `overtaken`."""

    epoch: int


class Serve(msgspec.Struct, frozen=True):
    """The home is ours: `first_group` is the first group of the new journal."""

    epoch: int
    first_group: int


class Overtaken(msgspec.Struct, frozen=True):
    """Another gateway is taking the home over, or has done so."""


Step: TypeAlias = Claim | Look | Seal | Replay | Appoint | Serve | Overtaken


def last_standing(after: int, there: Mapping[int, Kind]) -> int:
    """Return the last group that counts in a journal; `after` if none does. The groups behind
    `after`, the table's last one, count without a gap up to the first name that is free or has a
    seal. Entries behind that are void: they were never accepted."""
    group = after
    while there.get(group + 1) is Kind.GROUP:
        group += 1
    return group


class TakeOver:
    """The steps of one start. `step` is the next step; each answer leads to another one."""

    def __init__(self, found: Standing) -> None:
        """`found`: the table's content."""
        self._table = found
        self._epoch = found.epoch + 1
        self._there: dict[int, Kind] = {}
        self._looked = False
        self._last = found.group
        self.step: Step = Claim(found, self._epoch)

    def claimed(self) -> None:
        """Our claim is made: no older owner can commit or remove anything now."""
        if self._table.live:
            self._close()
        else:
            self.step = Appoint(self._epoch)

    def overtaken(self, found: Standing | None = None) -> None:
        """Another process made the version. A claim is tried again after that version."""
        if isinstance(self.step, Claim) and found is not None:
            self._table, self._last, self._epoch = found, found.group, found.epoch + 1
            self.step = Claim(found, self._epoch)
        else:
            self.step = Overtaken()

    def listed(self, there: Mapping[int, Kind]) -> None:
        """The live journal's entries, at least all that were there before the listing began."""
        self._there.update(there)
        self._looked = True
        self._close()

    def stands(self, kind: Kind) -> None:
        """The kind of the entry under the name of our seal: a seal, ours or another one, or the
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
        """All groups that were taken in are committed."""
        self.step = Appoint(self._epoch)

    def appointed(self) -> None:
        """The version is made: our journal is the live one from now on."""
        self.step = Serve(self._epoch, self._last + 1)
