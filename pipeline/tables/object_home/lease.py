"""A lease on a store: an object that says who owns something, and that it lives. Of a home without
a disk it says which gateway does, of Spark's tables which job (`jobs.tables.store_lock`).

It only says when to try: whoever is wrong about it loses nothing by that (`take_over`). An owner
replaces its own words by new ones, if they still stand (`If-Match`). Whoever wants to own takes the
lease when the words are gone or a farewell, or haven't changed for a whole lease of its own clock.
An owner that is about to say farewell says so before, and who waits looks often from then on. It
may name its heir, whom all others let take it first (`pipeline.fleet.heirs`).
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Final

import msgspec

from distributary.pipeline.errors import BeatFailed, HomeLocked, HomeLost, StopAsked, StoreError
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
    given it back, and one that says `leaving` will soon; `unsure` says in a farewell that requests
    may still be under way. A job says its name, and since when it runs (seconds since 1970).
    `heir` is the number of who is to take it first."""

    owner: str
    host: str
    pid: int
    beat: int = 0
    farewell: bool = False
    leaving: bool = False
    unsure: bool = False
    job: str = ""
    since: int = 0
    heir: int = NOBODY


class StoreLease(msgspec.Struct, frozen=True):
    """Which object it is, how long it lasts, and what is said to whoever has lost it. Requests of
    the store take `request_seconds(seconds)` at most."""

    url: str
    store: ObjectStore
    path: str
    seconds: float
    lost: str


class LeaseHeld(Exception):
    """Another process has the lease, and lives; `claim` is what it says, if that can be read."""

    def __init__(self, claim: Claim | None) -> None:
        super().__init__(claim)
        self.claim = claim


_DECODER: Final = msgspec.json.Decoder(Claim)


class _Seen(msgspec.Struct, frozen=True):
    """What stands there: its tag, and what it says if that can be read."""

    tag: Tag
    claim: Claim | None


class LeaseOwner:
    """The owner, by the lease, as long as `check` raises nothing. Threads: any."""

    #: A former owner may still live without knowing.
    taken: Final = True
    beats: Final = BEATS

    def __init__(
        self, lease: StoreLease, claim: Claim, tag: Tag, former: Claim | None = None
    ) -> None:
        """`former` is the farewell of the one before, which None says none of."""
        self._lease = lease
        self._claim, self._tag = claim, tag
        self._lock = threading.Lock()
        self._lost: str | None = None
        self.name = claim.owner
        #: Whether nothing of a former owner can be under way.
        self.follows_farewell = former is not None and former.farewell and not former.unsure

    def beat(self) -> None:
        """Show that this owner lives. Raises HomeLost when another one says that it owns what the
        lease is of, BeatFailed when the store doesn't answer."""
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
        return self._lease.seconds / LOOKS * _SEEN_LOOKS

    def stay(self) -> None:
        """Say that the home won't be given back soon, after all. Raises as `beat`."""
        with self._lock:
            self.check()
            self._say(msgspec.structs.replace(self._claim, leaving=False, heir=NOBODY))

    def _say(self, claim: Claim) -> None:
        try:
            said = msgspec.json.encode(claim)
            store, path = self._lease.store, self._lease.path
            tag = store.exchange(path, said, self._tag)
            if tag is None:
                self._tag = self._ours(_seen(self._lease))
                tag = store.exchange(path, said, self._tag) or self._tag
        except OSError as error:
            raise BeatFailed(f"the lease of {self._lease.url} can't be renewed: {error}") from error
        self._claim, self._tag = claim, tag

    def _ours(self, seen: _Seen | None) -> Tag:
        """The tag of our own words, which a request without an answer has left there."""
        if seen is None or seen.claim is None or seen.claim.owner != self._claim.owner:
            self._lost = self._lease.lost
            raise HomeLost(self._lost)
        return seen.tag

    def check(self) -> None:
        """Raise HomeLost when the home is known to have another owner; then it is lost for ever.
        Nothing is asked: the journal and the table refuse a former owner by themselves."""
        if self._lost is not None:
            raise HomeLost(self._lost)

    def release(self, *, unsure: bool = False) -> None:
        """Give it back, if the store answers; `unsure` while requests may be under way. A second
        time does nothing."""
        with suppress(HomeLost, BeatFailed), self._lock:
            self.check()
            if not self._claim.farewell:
                self._say(msgspec.structs.replace(self._claim, farewell=True, unsure=unsure))


class LeaseStandby:
    """Waits for a lease: call `attempt` again and again."""

    def __init__(
        self, lease: StoreLease, me: int = NOBODY, *, job: str = "", since: int = 0
    ) -> None:
        """`me`: the number by which an owner may name it; `job` and `since` are for a claim of a
        job."""
        self._lease = lease
        self._me, self._patience = me, Patience(me)
        self._claim = Claim(token_hex(8), socket.gethostname(), os.getpid(), job=job, since=since)
        self._seen: _Seen | None = None
        self._since = 0.0
        self._wait = lease.seconds / LOOKS

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

    def attempt(self, clock: Callable[[], float]) -> LeaseOwner | None:
        """The lease, if nobody has it or its owner has shown no life for its time; `clock` says
        seconds and runs evenly. None also while the store doesn't answer."""
        self._wait = _AGAIN_SECONDS  # in case the store doesn't answer
        asked = clock()
        try:
            seen = _seen(self._lease)
            return self.tried(seen, asked, clock())
        except OSError:
            return None

    def tried(self, seen: _Seen | None, asked: float, answered: float) -> LeaseOwner | None:
        """The same, with what stands there, and the times before and after it was looked at: what
        is new has stood there since the later one at most, as this process may be paused amid a
        look. Raises OSError when it isn't known whether it is ours; the next attempt tells."""
        claim = None if seen is None else seen.claim
        if seen is None or claim is None:
            return self._take(seen)
        if claim.owner == self._claim.owner and not claim.farewell:  # the answer was lost
            return LeaseOwner(self._lease, claim, seen.tag)
        if self._seen is None or seen.tag != self._seen.tag:
            self._seen, self._since = seen, answered
        left = self._since + self._lease.seconds - asked
        free = claim.farewell or left <= 0
        if self._patience.may_take(claim.heir, free=free, now=asked):
            return self._take(seen)
        # The look that decides comes in time.
        self._wait = (
            min(self._lease.seconds / LOOKS, left) if not free else self._lease.seconds / LOOKS
        )
        return None

    def look(self) -> _Seen | None:
        """What stands there. Raises OSError."""
        return _seen(self._lease)

    def _take(self, seen: _Seen | None) -> LeaseOwner | None:
        said = msgspec.json.encode(self._claim)
        tag = self._lease.store.exchange(self._lease.path, said, None if seen is None else seen.tag)
        if tag is None:
            return None
        return LeaseOwner(self._lease, self._claim, tag, None if seen is None else seen.claim)


def shown_life(lease: StoreLease) -> tuple[Claim | None, bool]:
    """Who has the lease, None if nobody that can be read or that has said farewell, and whether it
    shows that it lives. Blocks until it does, for as long as one sign of life takes to come; who
    misses that one may live all the same. Raises OSError."""
    first = _seen(lease)
    until = time.monotonic() + lease.seconds / BEATS + request_seconds(lease.seconds)
    seen = first
    while seen is not None and seen.claim is not None and not seen.claim.farewell:
        if first is not None and seen.tag != first.tag:
            return seen.claim, True
        if time.monotonic() > until:
            return seen.claim, False
        time.sleep(lease.seconds / BEATS / BEATS)
        seen = _seen(lease)
    return None, False


def request_seconds(lease_seconds: float) -> float:
    """How long one request about a lease may take."""
    return max(lease_seconds * _REQUEST, _AGAIN_SECONDS)


def acquired(
    standby: LeaseStandby, lease: StoreLease, stop: Callable[[], bool] = lambda: False
) -> LeaseOwner:
    """Have the lease now, or when its owner has shown no life for so long: a process that was
    killed leaves its words. Raises LeaseHeld when its owner lives, StoreError when the store
    doesn't answer, StopAsked when `stop` says that nobody wants it any more. Blocks for a lease and
    a little, and where an heir was named that doesn't come for HEIR_SECONDS more."""
    first: _Seen | None = None
    begun, error = time.monotonic(), OSError("its store doesn't answer")
    while (now := time.monotonic()) - begun < 2 * lease.seconds + HEIR_SECONDS:
        try:
            seen = standby.look()
            if (owner := standby.tried(seen, now, time.monotonic())) is not None:
                return owner
        except OSError as why:
            error = why
            seen = None
        first = first or seen
        if first is not None and seen is not None and seen.tag != first.tag:
            raise LeaseHeld(seen.claim)
        if stop():
            raise StopAsked
        time.sleep(standby.seconds)
    raise StoreError(f"the lease of {lease.url} can't be taken: {error}")


@contextmanager
def renewed(owner: LeaseOwner, seconds: float) -> Iterator[None]:
    """Show a sign of life so often, on a thread, while the block runs; until another one has the
    lease. For whoever has no loop of its own."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(seconds):
            try:
                owner.beat()
            except BeatFailed:
                continue  # the store doesn't answer; whatever the lease is for fails then, too
            except HomeLost:
                return

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def lease_of(home: ObjectHome, seconds: float) -> StoreLease:
    """The lease of a home. Raises InvalidRequest where no home can be."""
    lost = (
        f"{home.url} has another owner now: this one gave no sign of life for longer than "
        "owner.lease_ms. What it accepted is kept; it does nothing more"
    )
    return StoreLease(home.url, home.store(request_seconds(seconds)), LEASE, seconds, lost)


def acquire_lease(home: ObjectHome, seconds: float) -> LeaseOwner:
    """Own the home, as `acquired` says. Raises HomeLocked when its owner lives, StoreError when the
    store doesn't answer, InvalidRequest where no home can be."""
    lease = lease_of(home, seconds)
    try:
        return acquired(LeaseStandby(lease), lease)
    except LeaseHeld as held:
        raise HomeLocked(_in_use(home, held.claim)) from None


def _in_use(home: ObjectHome, claim: Claim | None) -> str:
    who = f"pid {claim.pid} on {claim.host}" if claim is not None else "an unknown pid"
    return (
        f"{home.url} is in use by the gateway with {who}; stop it first, wait for it with "
        "--standby, or choose another home"
    )


def _seen(lease: StoreLease) -> _Seen | None:
    """What stands there; None if nothing does. Raises OSError."""
    try:
        data, tag = lease.store.tagged(lease.path)
    except FileNotFoundError:
        return None
    try:
        return _Seen(tag, _DECODER.decode(data))
    except msgspec.MsgspecError:
        return _Seen(tag, None)
