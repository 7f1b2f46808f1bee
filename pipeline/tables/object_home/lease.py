"""The lease of a home without a disk: an object that says who owns it, and that it lives.

It only says when to try: whoever is wrong about it loses nothing by that (`take_over`). An owner
replaces its own words by new ones, if they still stand (`If-Match`). Whoever wants the home takes
it when the words are gone or a farewell, or haven't changed for a whole lease of its own clock.
An owner that is about to say farewell says so before, and who waits looks often from then on. It
may name its heir, whom all others let take the home first (`pipeline.fleet.heirs`).
"""

import os
import socket
import threading
import time
from contextlib import suppress
from secrets import token_hex
from typing import Final

import msgspec

from distributary.pipeline.errors import BeatFailed, HomeLocked, HomeLost, StoreError
from distributary.pipeline.fleet.heirs import HEIR_SECONDS, NOBODY, Patience
from distributary.pipeline.tables.delta.object_store import ObjectStore, Tag
from distributary.pipeline.tables.object_home.object_home import LEASE, ObjectHome

#: Looks of a standby in a lease, and signs of life of an owner: each is a request that costs.
LOOKS: Final = 6
BEATS: Final = 3
#: The part of a lease that one request about it may take.
_REQUEST: Final = 1 / 6
#: Seconds between two attempts to show a sign of life, or to look for one, while the store doesn't
#: answer.
_AGAIN_SECONDS: Final = 0.1
#: Seconds between two looks of a standby while the owner is leaving.
LEAVING_SECONDS: Final = 0.03
#: Looks in which a standby has seen that the owner is leaving, with the time that a look takes.
_SEEN_LOOKS: Final = 1.5


class Claim(msgspec.Struct, frozen=True):
    """What the object says. `owner` is a random name of the process; one that says `farewell` has
    given the home back, and one that says `leaving` will soon; `heir` is the number of who is to
    take it first."""

    owner: str
    host: str
    pid: int
    beat: int = 0
    farewell: bool = False
    leaving: bool = False
    heir: int = NOBODY


_DECODER: Final = msgspec.json.Decoder(Claim)


class _Seen(msgspec.Struct, frozen=True):
    """What stands there: its tag, and what it says if that can be read."""

    tag: Tag
    claim: Claim | None


class LeaseOwner:
    """The home's owner, by the lease, as long as `check` raises nothing. Threads: any."""

    #: A former owner may still live without knowing.
    taken: Final = True
    beats: Final = BEATS

    def __init__(
        self, home: ObjectHome, store: ObjectStore, claim: Claim, tag: Tag, lease_seconds: float
    ) -> None:
        self._home, self._store, self._lease = home, store, lease_seconds
        self._claim, self._tag = claim, tag
        self._lock = threading.Lock()
        self._lost: str | None = None

    def beat(self) -> None:
        """Show that this owner lives. Raises HomeLost when another one says that it owns the home,
        BeatFailed when the store doesn't answer."""
        with self._lock:
            self.check()
            claim = msgspec.structs.replace(self._claim, beat=self._claim.beat + 1)
            self._say(claim)

    def leave(self, heir: int = NOBODY) -> float:
        """Say that the home will be given back soon, and who is to take it first. After so many
        seconds whoever waits for it has seen that: nobody knows whether somebody does. Raises as
        `beat`."""
        with self._lock:
            self.check()
            self._say(msgspec.structs.replace(self._claim, leaving=True, heir=heir))
        return self._lease / LOOKS * _SEEN_LOOKS

    def stay(self) -> None:
        """Say that the home won't be given back soon, after all. Raises as `beat`."""
        with self._lock:
            self.check()
            self._say(msgspec.structs.replace(self._claim, leaving=False, heir=NOBODY))

    def _say(self, claim: Claim) -> None:
        try:
            said = msgspec.json.encode(claim)
            tag = self._store.exchange(LEASE, said, self._tag)
            if tag is None:
                self._tag = self._ours(_seen(self._store))
                tag = self._store.exchange(LEASE, said, self._tag) or self._tag
        except OSError as error:
            raise BeatFailed(f"the lease of {self._home.url} can't be renewed: {error}") from error
        self._claim, self._tag = claim, tag

    def _ours(self, seen: _Seen | None) -> Tag:
        """The tag of our own words, which a request without an answer has left there."""
        if seen is None or seen.claim is None or seen.claim.owner != self._claim.owner:
            self._lost = (
                f"{self._home.url} has another owner now: this one gave no sign of life for "
                "longer than owner.lease_ms. What it accepted is kept; it does nothing more"
            )
            raise HomeLost(self._lost)
        return seen.tag

    def check(self) -> None:
        """Raise HomeLost when the home is known to have another owner; then it is lost for ever.
        Nothing is asked: the journal and the table refuse a former owner by themselves."""
        if self._lost is not None:
            raise HomeLost(self._lost)

    def release(self) -> None:
        """Give the home back, if the store answers. A second time does nothing."""
        with suppress(HomeLost, BeatFailed), self._lock:
            self.check()
            if not self._claim.farewell:
                self._say(msgspec.structs.replace(self._claim, farewell=True))


class LeaseStandby:
    """Waits for a home: call `attempt` again and again."""

    def __init__(self, home: ObjectHome, lease_seconds: float, me: int = NOBODY) -> None:
        """`me`: the number by which an owner may name it."""
        self._home, self._lease = home, lease_seconds
        self._me, self._patience = me, Patience(me)
        self._store = home.store(max(lease_seconds * _REQUEST, _AGAIN_SECONDS))
        self._claim = Claim(token_hex(8), socket.gethostname(), os.getpid())
        self._seen: _Seen | None = None
        self._since = 0.0
        self._wait = lease_seconds / LOOKS

    @property
    def owner_pid(self) -> int:
        """The pid of the owner that was seen, on its own host; 0 when it isn't known."""
        return self._owner.pid if self._owner is not None else 0

    @property
    def leaving(self) -> bool:
        """Whether the owner said, when it was last looked at, that it will give the home back, and
        to nobody else."""
        owner = self._owner
        return owner is not None and owner.leaving and owner.heir in {NOBODY, self._me}

    @property
    def named(self) -> bool:
        """Whether the owner has named this one as its heir, when it was last looked at."""
        owner = self._owner
        return owner is not None and owner.heir == self._me != NOBODY

    @property
    def _owner(self) -> Claim | None:
        return self._seen.claim if self._seen is not None else None

    @property
    def seconds(self) -> float:
        """Seconds between two attempts."""
        return LEAVING_SECONDS if self.leaving else self._wait

    def close(self) -> None:
        """Nothing: that one waits leaves no trace."""

    def attempt(self, now: float) -> LeaseOwner | None:
        """The home, if nobody owns it or its owner has shown no life for a lease; `now` in seconds
        of any clock that runs evenly. None also while the store doesn't answer."""
        self._wait = _AGAIN_SECONDS  # in case the store doesn't answer
        try:
            return self.tried(_seen(self._store), now)
        except OSError:
            return None

    def tried(self, seen: _Seen | None, now: float) -> LeaseOwner | None:
        """The same, with what stands there. Raises OSError when it isn't known whether the home is
        ours; the next attempt tells."""
        claim = None if seen is None else seen.claim
        if seen is None or claim is None:
            return self._take(seen)
        if claim.owner == self._claim.owner and not claim.farewell:  # the answer was lost
            return LeaseOwner(self._home, self._store, claim, seen.tag, self._lease)
        if self._seen is None or seen.tag != self._seen.tag:
            self._seen, self._since = seen, now
        left = self._since + self._lease - now
        free = claim.farewell or left <= 0
        if self._patience.may_take(claim.heir, free=free, now=now):
            return self._take(seen)
        # The look that decides comes in time.
        self._wait = min(self._lease / LOOKS, left) if not free else self._lease / LOOKS
        return None

    def look(self) -> _Seen | None:
        """What stands there. Raises OSError."""
        return _seen(self._store)

    def _take(self, seen: _Seen | None) -> LeaseOwner | None:
        said = msgspec.json.encode(self._claim)
        tag = self._store.exchange(LEASE, said, None if seen is None else seen.tag)
        if tag is None:
            return None
        return LeaseOwner(self._home, self._store, self._claim, tag, self._lease)


def acquire_lease(home: ObjectHome, lease_seconds: float) -> LeaseOwner:
    """Own the home now, or when its owner has shown no life for a lease: a process that was killed
    leaves its words. Raises HomeLocked when its owner lives, StoreError when the store doesn't
    answer, InvalidRequest where no home can be. Blocks for a lease and a little, and where an heir
    was named that doesn't come for HEIR_SECONDS more."""
    standby = LeaseStandby(home, lease_seconds)
    first: _Seen | None = None
    begun, error = time.monotonic(), OSError("its store doesn't answer")
    while (now := time.monotonic()) - begun < 2 * lease_seconds + HEIR_SECONDS:
        try:
            seen = standby.look()
            if (owner := standby.tried(seen, now)) is not None:
                return owner
        except OSError as why:
            error = why
            seen = None
        first = first or seen
        if first is not None and seen is not None and seen.tag != first.tag:
            raise HomeLocked(_in_use(home, seen.claim))
        time.sleep(standby.seconds)
    raise StoreError(f"the lease of {home.url} can't be taken: {error}")


def _in_use(home: ObjectHome, claim: Claim | None) -> str:
    who = f"pid {claim.pid} on {claim.host}" if claim is not None else "an unknown pid"
    return (
        f"{home.url} is in use by the gateway with {who}; stop it first, wait for it with "
        "--standby, or choose another home"
    )


def _seen(store: ObjectStore) -> _Seen | None:
    """What stands there; None if nothing does. Raises OSError."""
    try:
        data, tag = store.tagged(LEASE)
    except FileNotFoundError:
        return None
    try:
        return _Seen(tag, _DECODER.decode(data))
    except msgspec.MsgspecError:
        return _Seen(tag, None)
