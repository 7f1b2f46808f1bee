"""A lease on a store: an object that names an owner and shows that the owner lives. The owner of a
home without a disk is a gateway, that of Spark's tables a job (`jobs.tables.store_lock`).

The lease only tells when to try a take-over: a wrong guess loses nothing (`take_over`). An owner
replaces its own claim by a newer one, if it is unchanged (`If-Match`). Another process takes the
lease when the object is absent or says farewell, or hasn't changed for a whole lease by that
process' own clock. An owner that is about to say farewell announces it, and standbys look often
from then on. It may name its heir; the other standbys let the heir take the lease first
(`pipeline.fleet.heirs`).
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

#: Looks of a standby in a lease, and heartbeats of an owner: each is a request to the store.
LOOKS: Final = 6
BEATS: Final = 3
#: The part of a lease that one request about it may take.
_REQUEST: Final = 1 / 6
#: Seconds between two attempts of a heartbeat or a look while the store doesn't answer.
_AGAIN_SECONDS: Final = 0.1
#: Seconds between two looks of a standby while the owner is leaving.
LEAVING_SECONDS: Final = 0.03
#: Looks after which a standby has seen that the owner is leaving, with the time that a look takes.
_SEEN_LOOKS: Final = 1.5


class Claim(msgspec.Struct, frozen=True):
    """The object's content. `owner` is a random name of the process. With `farewell` the owner has
    given the lease back, with `leaving` it soon will; `unsure` tells in a farewell that requests
    may still be under way. A job tells its name, and since when it runs (seconds since 1970).
    `heir` is the number of the standby that is to take the lease first."""

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
    """The lease's object, how long it lasts, and the error text for an owner that has lost it.
    Requests to the store take `request_seconds(seconds)` at most."""

    url: str
    store: ObjectStore
    path: str
    seconds: float
    lost: str


class LeaseHeld(Exception):
    """Another process has the lease, and lives; `claim` is its claim, if it can be read."""

    def __init__(self, claim: Claim | None) -> None:
        super().__init__(claim)
        self.claim = claim


_DECODER: Final = msgspec.json.Decoder(Claim)


class _Seen(msgspec.Struct, frozen=True):
    """The object as it was read: its tag, and its claim if that can be read."""

    tag: Tag
    claim: Claim | None


class LeaseOwner:
    """The owner by the lease, as long as `check` raises nothing. Threads: any."""

    #: A former owner may still live without knowing.
    taken: Final = True
    beats: Final = BEATS

    def __init__(
        self, lease: StoreLease, claim: Claim, tag: Tag, former: Claim | None = None
    ) -> None:
        """`former` is the claim that this owner replaced; None if there was none."""
        self._lease = lease
        self._claim, self._tag = claim, tag
        self._lock = threading.Lock()
        self._lost: str | None = None
        self.name = claim.owner
        #: Whether no request of a former owner can be under way.
        self.follows_farewell = former is not None and former.farewell and not former.unsure

    def beat(self) -> None:
        """Show that this owner lives. Raises HomeLost when another process owns the lease,
        BeatFailed when the store doesn't answer."""
        with self._lock:
            self.check()
            claim = msgspec.structs.replace(self._claim, beat=self._claim.beat + 1)
            self._say(claim)

    def leave(self, heir: int = NOBODY) -> float:
        """Say that the home will be given back soon, and which standby is to take it first. Return
        the seconds after which every standby has seen that; whether there is one isn't known.
        Raises as `beat`."""
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
        """Return the tag of our own claim, left there by a request without an answer."""
        if seen is None or seen.claim is None or seen.claim.owner != self._claim.owner:
            self._lost = self._lease.lost
            raise HomeLost(self._lost)
        return seen.tag

    def check(self) -> None:
        """Raise HomeLost when the home is known to have another owner; then all later calls raise
        it, too. No request is made: the journal and the table refuse a former owner themselves."""
        if self._lost is not None:
            raise HomeLost(self._lost)

    def release(self, *, unsure: bool = False) -> None:
        """Give the lease back, if the store answers; `unsure` while requests may be under way. A
        second call does nothing."""
        with suppress(HomeLost, BeatFailed), self._lock:
            self.check()
            if not self._claim.farewell:
                self._say(msgspec.structs.replace(self._claim, farewell=True, unsure=unsure))


class LeaseStandby:
    """Waits for a lease: call `attempt` repeatedly."""

    def __init__(
        self, lease: StoreLease, me: int = NOBODY, *, job: str = "", since: int = 0
    ) -> None:
        """`me`: the number by which an owner may name it as heir; `job` and `since`: for the claim
        of a job."""
        self._lease = lease
        self._me, self._patience = me, Patience(me)
        self._claim = Claim(token_hex(8), socket.gethostname(), os.getpid(), job=job, since=since)
        self._seen: _Seen | None = None
        self._since = 0.0
        self._wait = lease.seconds / LOOKS

    @property
    def owner_pid(self) -> int:
        """The owner's pid at the last look, on its own host; 0 when it isn't known."""
        return self._owner.pid if self._owner is not None else 0

    @property
    def leaving(self) -> bool:
        """Whether the owner said, at the last look, that it will give the home back to any standby
        or to this one."""
        owner = self._owner
        return owner is not None and owner.leaving and owner.heir in {NOBODY, self._me}

    @property
    def named(self) -> bool:
        """Whether the owner had named this standby as its heir at the last look."""
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
        """Do nothing: a waiting standby leaves no trace."""

    def attempt(self, clock: Callable[[], float]) -> LeaseOwner | None:
        """Take the lease if it has no owner or its owner has shown no life for its time; `clock`
        gives monotonic seconds. None also while the store doesn't answer."""
        self._wait = _AGAIN_SECONDS  # in case the store doesn't answer
        asked = clock()
        try:
            seen = _seen(self._lease)
            return self.tried(seen, asked, clock())
        except OSError:
            return None

    def tried(self, seen: _Seen | None, asked: float, answered: float) -> LeaseOwner | None:
        """As `attempt`, with the object and the times before and after it was read. Its last change
        counts from the later time, as this process may be paused during a look. Raises OSError when
        it isn't known whether the lease is ours; the next attempt tells."""
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
        # The look at which the lease is over comes in time.
        self._wait = (
            min(self._lease.seconds / LOOKS, left) if not free else self._lease.seconds / LOOKS
        )
        return None

    def look(self) -> _Seen | None:
        """Read the lease. Raises OSError."""
        return _seen(self._lease)

    def _take(self, seen: _Seen | None) -> LeaseOwner | None:
        said = msgspec.json.encode(self._claim)
        tag = self._lease.store.exchange(self._lease.path, said, None if seen is None else seen.tag)
        if tag is None:
            return None
        return LeaseOwner(self._lease, self._claim, tag, None if seen is None else seen.claim)


def shown_life(lease: StoreLease) -> tuple[Claim | None, bool]:
    """Return the owner's claim, None if there is none, it can't be read or it says farewell; and
    whether the owner has shown life. Blocks until it does, at most for the time of one heartbeat;
    an owner whose heartbeat is late may live all the same. Raises OSError."""
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
    """Return the seconds that one request about a lease may take."""
    return max(lease_seconds * _REQUEST, _AGAIN_SECONDS)


def acquired(
    standby: LeaseStandby, lease: StoreLease, stop: Callable[[], bool] = lambda: False
) -> LeaseOwner:
    """Take the lease now, or when its owner has shown no life for a lease: a killed process leaves
    its claim. Raises LeaseHeld when its owner lives, StoreError when the store doesn't answer,
    StopAsked when `stop` says that the lease isn't wanted any more. Blocks for a lease and a
    little, and for HEIR_SECONDS more where a named heir doesn't come."""
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
    """Show a sign of life every `seconds`, on a thread, while the block runs; until another process
    has the lease. For owners without a loop of their own."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(seconds):
            try:
                owner.beat()
            except BeatFailed:
                continue  # the store doesn't answer; the owner's other requests fail then, too
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
    """Return the lease of a home. Raises InvalidRequest where no home can be."""
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
    """Read the lease; None if it is absent. Raises OSError."""
    try:
        data, tag = lease.store.tagged(lease.path)
    except FileNotFoundError:
        return None
    try:
        return _Seen(tag, _DECODER.decode(data))
    except msgspec.MsgspecError:
        return _Seen(tag, None)
