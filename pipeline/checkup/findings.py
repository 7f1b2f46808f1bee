"""Facts about a machine and a home, and their consequences for a gateway.

Rule 1: the code that collects facts only reads: every judgement is here, and each threshold once.
Rule 2: each finding is one sentence; one that isn't good says what to do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    """The severity of a finding."""

    GOOD = "good"
    LOOK = "look"  #: it works, and the operator should know
    BAD = "bad"  #: a gateway won't work, or can't keep its promises


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a subject."""

    subject: str
    verdict: Verdict
    sentence: str


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """The disk of a folder. Times are of `fdatasync` after an append of 4 KiB."""

    filesystem: str
    sync_p50_ms: float
    sync_p99_ms: float
    write_bytes_a_second: float
    free_bytes: int
    free_files: int | None  #: None where the file system counts none


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """Limits of the system for this process, None for no limit, and the settings' needs."""

    open_files: int | None
    open_files_needed: int
    memory_bytes: int | None
    memory_needed: int


class PortState(StrEnum):
    """The state of an address where a gateway is to listen."""

    FREE = "free"
    AMQP = "AMQP"  #: an AMQP server listens
    TAKEN = "taken"
    REFUSED = "refused"  #: the system refuses to let this process listen


@dataclass(frozen=True, slots=True)
class PortFacts:
    """An address in a setting; `why` is the system's reason where it refuses."""

    setting: str
    address: str
    state: PortState
    why: str = ""


class HomeState(StrEnum):
    """The content of a home's folder."""

    ABSENT = "absent"
    EMPTY = "empty"
    OURS = "ours"  #: a gateway's files
    RESTORING = "restoring"  #: a restore is making it, or was interrupted
    FOREIGN = "foreign"  #: files that aren't a gateway's
    UNUSABLE = "unusable"  #: no folder, or not readable and writable


@dataclass(frozen=True, slots=True)
class HomeFacts:
    """A home. `owner` is the pid of the gateway that has its lock, 0 for none; `open_to_all`: all
    users of the machine may write there; `why` is the reason why it is unusable."""

    path: str
    state: HomeState
    owner: int = 0
    open_to_all: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A home without a disk. Times are of a put of 4 KiB; `put_ms_max` is the time that an owner
    has for a heartbeat's put; `clock_seconds`: how far the store's clock is ahead of ours; `owner`
    names the lease's owner, empty for none; `why` is the reason why the store is unusable: then
    nothing else is known. `left` are groups of former owners' journals."""

    address: str
    why: str = ""
    keeps_conditions: bool = True
    put_p50_ms: float = 0.0
    put_p99_ms: float = 0.0
    put_ms_max: float = 0.0
    clock_seconds: float = 0.0
    owner: str = ""
    owner_lives: bool = False
    has_log: bool = False
    restoring: bool = False
    left: int = 0


#: File systems that lose their content with the power, and those of other machines.
IN_MEMORY: Final = frozenset({"tmpfs", "ramfs", "devtmpfs", "zram"})
OF_NETWORKS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs", "afs"}
)
#: A faster sync than this reaches no medium: the fastest with a capacitor take 20 us.
HONEST_MS: Final = 0.008
#: Median and 99th percentile of a sync that publishers notice, and the limit of a slow write.
SLOW_MS: Final = 10.0
SLOW_P99_MS: Final = 100.0
SLOW_BYTES_A_SECOND: Final = 50e6
#: Files that a home may need in a month with its default upkeep.
FILES_NEEDED: Final = 20_000
#: Puts that are measured, and the median from which on they are slow.
PUTS: Final = 20
SLOW_PUT_MS: Final = 100.0
#: Difference of clocks that the operator should know; S3 refuses requests from 15 minutes on.
SKEW_SECONDS: Final = 60.0
#: The oldest Java that Spark starts with.
JAVA_MIN: Final = 17


def of_disk(disk: DiskFacts, needed_bytes: int) -> Iterator[Finding]:
    """Judge the disk. `needed_bytes`: the journal's size at which publishers wait."""
    yield _of_sync(disk)
    speed = f"{disk.write_bytes_a_second / 1e6:,.0f} MB/s"
    slow = disk.write_bytes_a_second < SLOW_BYTES_A_SECOND
    yield Finding(
        "disk",
        Verdict.LOOK if slow else Verdict.GOOD,
        f"It writes {speed}" + (": a gateway takes no more than that for long." if slow else "."),
    )
    free, needed = _size(disk.free_bytes), _size(needed_bytes)
    if disk.free_bytes < needed_bytes:
        text = f"{free} are free, and the journal alone may take {needed}: make room"
        yield Finding("space", Verdict.BAD, f"{text}, or lower journal.backlog_bytes_max.")
    elif disk.free_bytes < 4 * needed_bytes:
        text = f"{free} are free: {needed} of them for the journal, the rest for the tables"
        yield Finding("space", Verdict.LOOK, f"{text}. See to retention (upkeep.retention_days).")
    else:
        yield Finding("space", Verdict.GOOD, f"{free} are free; the journal may take {needed}.")
    if disk.free_files is not None and disk.free_files < FILES_NEEDED:
        text = f"The file system has room for {disk.free_files:,} more files; a home may need"
        yield Finding("space", Verdict.LOOK, f"{text} {FILES_NEEDED:,}: it runs out of inodes.")


def _of_sync(disk: DiskFacts) -> Finding:
    times = f"{disk.sync_p50_ms:.2f} ms, {disk.sync_p99_ms:.2f} ms for the slowest of a hundred"
    kind = disk.filesystem
    if kind in IN_MEMORY:
        text = f"It is {kind}, which is memory: all that was accepted is gone with the power"
        return Finding("fsync", Verdict.BAD, f"{text}. Put the home on a disk.")
    if kind in OF_NETWORKS:
        text = f"It is {kind}, another machine's disk: an fsync takes {times}, and whether it is"
        return Finding("fsync", Verdict.LOOK, f"{text} durable there that machine decides.")
    if disk.sync_p50_ms < HONEST_MS:
        text = f"An fsync on {kind} takes {times}: faster than any disk, so nothing is durable"
        return Finding(
            "fsync", Verdict.BAD, f"{text}. Find the layer that ignores it, and turn that off."
        )
    if disk.sync_p50_ms > SLOW_MS or disk.sync_p99_ms > SLOW_P99_MS:
        text = f"An fsync on {kind} takes {times}: each publisher waits for one"
        return Finding("fsync", Verdict.LOOK, f"{text}. A faster disk helps more than anything.")
    return Finding("fsync", Verdict.GOOD, f"An fsync on {kind} takes {times}.")


def of_store(store: StoreFacts) -> Iterator[Finding]:
    """Judge a home without a disk."""
    at = store.address
    if store.why:
        text = f"{at} can't be used: {store.why}. See to its address, keys and rights."
        yield Finding("store", Verdict.BAD, text)
        return
    if store.restoring:
        yield of_restoring(at)
    elif store.owner:
        seen = "which lives" if store.owner_lives else "which gives no sign of life"
        yield Finding("home", Verdict.GOOD, f"{at} is the home of {store.owner}, {seen}.")
    else:
        what = "is a gateway's home; none owns it" if store.has_log else "has no log yet"
        yield Finding("home", Verdict.GOOD, f"{at} {what}.")
    if store.keeps_conditions:
        text = "It keeps conditions of puts (If-None-Match, If-Match)."
        yield Finding("store", Verdict.GOOD, text)
    else:
        text = "It ignores conditions of puts, so two gateways could own the home: use another one."
        yield Finding("store", Verdict.BAD, text)
    yield _of_puts(store)
    if abs(store.clock_seconds) > SKEW_SECONDS:
        text = f"Its clock and this machine's are {abs(store.clock_seconds):,.0f} s apart"
        then = "requests are refused from minutes on. Run chrony or systemd-timesyncd."
        yield Finding("store", Verdict.LOOK, f"{text}: {then}")
    if store.left:
        text = f"{store.left:,} groups of former owners' journals are left"
        then = "each start removes those of the owner before it; more cost what their bytes cost."
        yield Finding("journal", Verdict.GOOD, f"{text}: {then}")


def of_restoring(home: str) -> Finding:
    """Return the finding for a home with the mark of a restore."""
    text = f"{home} is being restored, or a restore was cut off: run `distributary restore` again."
    return Finding("home", Verdict.BAD, text)


def _of_puts(store: StoreFacts) -> Finding:
    times = f"{store.put_p50_ms:,.0f} ms, {store.put_p99_ms:,.0f} ms for the slowest of {PUTS}"
    if store.put_p99_ms > store.put_ms_max:
        text = f"A put takes {times}: signs of life come late, and the home is lost by that"
        return Finding("puts", Verdict.LOOK, f"{text}. Raise owner.lease_ms.")
    if store.put_p50_ms > SLOW_PUT_MS:
        text = f"A put takes {times}: each publisher waits for one"
        return Finding("puts", Verdict.LOOK, f"{text}. Run the gateway where the bucket is.")
    return Finding("puts", Verdict.GOOD, f"A put takes {times}.")


def of_limits(limits: LimitFacts) -> Iterator[Finding]:
    files, wanted = limits.open_files, limits.open_files_needed
    if files is not None and files < wanted:
        text = f"A process may open {files:,} files and amqp.connections_max needs {wanted:,}"
        then = "fewer connections are taken. Raise it (ulimit -n, LimitNOFILE)."
        yield Finding("open files", Verdict.LOOK, f"{text}: {then}")
    else:
        shown = "any number of" if files is None else f"{files:,}"
        yield Finding("open files", Verdict.GOOD, f"A process may open {shown} files.")
    memory, most = limits.memory_bytes, _size(limits.memory_needed)
    if memory is not None and memory < limits.memory_needed:
        text = f"There are {_size(memory)}, and all buffers together may take {most}"
        then = "Give it more, or lower the limits (docs/limits.md has their sum)."
        yield Finding("memory", Verdict.LOOK, f"{text}. {then}")
    elif memory is not None:
        text = f"There are {_size(memory)}; all buffers together may take {most}."
        yield Finding("memory", Verdict.GOOD, text)


def of_clock(synchronised: bool | None) -> Finding:
    """Judge the clock. `synchronised`: the kernel's answer; None where it has none."""
    if synchronised:
        return Finding("clock", Verdict.GOOD, "The kernel keeps it in step with others.")
    why = "The kernel doesn't say" if synchronised is None else "The kernel says that it isn't"
    text = f"{why} synchronised: expiry, delays and `state as of` go by it"
    return Finding("clock", Verdict.LOOK, f"{text}. Run chrony or systemd-timesyncd.")


def of_port(port: PortFacts, owner: int) -> Finding:
    """Judge an address. `owner`: the pid of the gateway that has the home, 0 for none."""
    subject, at = port.setting, port.address
    match port.state:
        case PortState.FREE:
            return Finding(subject, Verdict.GOOD, f"{at} is free.")
        case PortState.AMQP if owner:
            return Finding(subject, Verdict.GOOD, f"An AMQP server listens on {at} already.")
        case PortState.TAKEN if owner and subject != "gateway.listen":
            return Finding(subject, Verdict.GOOD, f"Something listens on {at} already.")
        case PortState.AMQP | PortState.TAKEN:
            what = "An AMQP server" if port.state is PortState.AMQP else "Another program"
            text = f"{what} listens on {at}: stop it, or name another port by {subject}."
            return Finding(subject, Verdict.BAD, text)
        case PortState.REFUSED:
            text = f"Nothing can listen on {at}: {port.why}. Name another by {subject}."
            return Finding(subject, Verdict.BAD, text)


def of_home(home: HomeFacts) -> Iterator[Finding]:
    path = home.path
    match home.state:
        case HomeState.ABSENT:
            yield Finding("home", Verdict.GOOD, f"{path} isn't there; a gateway will make it.")
        case HomeState.EMPTY:
            yield Finding("home", Verdict.GOOD, f"{path} is empty; a gateway will fill it.")
        case HomeState.RESTORING:
            yield of_restoring(path)
        case HomeState.OURS if home.owner:
            text = f"{path} is the home of the gateway with pid {home.owner}, which runs."
            yield Finding("home", Verdict.GOOD, text)
        case HomeState.OURS:
            yield Finding("home", Verdict.GOOD, f"{path} is a gateway's home; none runs on it.")
        case HomeState.FOREIGN:
            text = f"{path} has files, and none of a gateway's: is it the right folder?"
            yield Finding("home", Verdict.LOOK, text)
        case HomeState.UNUSABLE:
            text = f"{path} can't be a home: {home.why}. See to its rights, or name another."
            yield Finding("home", Verdict.BAD, text)
    if home.open_to_all:
        text = f"Every user of this machine may write into {path}: chmod o-w it."
        yield Finding("home", Verdict.LOOK, text)


def of_lake(
    owners: Mapping[str, int], secret: str, open_to_others: bool | None
) -> Iterator[Finding]:
    """Judge a home with several logs: the pid of the gateway that serves each, 0 for none; the file
    of its secret, as for `of_secret`."""
    said = [f"{log} (pid {pid})" if pid else log for log, pid in owners.items()]
    text = f"The home is a lake with the logs {', '.join(said)}; a pid is that of its gateway here."
    yield Finding("lake", Verdict.GOOD, text)
    yield replace(of_secret(secret, open_to_others), subject="lake")


def of_secret(file: str, open_to_others: bool | None) -> Finding:
    """Judge a file of passwords or permissions; `open_to_others` None: it can't be read."""
    if open_to_others is None:
        text = f"{file} can't be read: the gateway won't start."
        return Finding("users", Verdict.BAD, text)
    if open_to_others:
        text = f"Other users of this machine may read or change {file}: chmod 600 it."
        return Finding("users", Verdict.BAD, text)
    return Finding("users", Verdict.GOOD, f"{file} is its owner's alone.")


def of_java(spark: bool, version: int | None) -> Finding:
    """Judge Java. `spark`: pyspark is installed here; `version` is Java's, None for none."""
    if not spark:
        text = "Spark isn't installed here, and a gateway needs no Java."
        return Finding("java", Verdict.GOOD, text)
    if version is None or version < JAVA_MIN:
        found = "there is none" if version is None else f"this is Java {version}"
        text = f"Spark needs Java {JAVA_MIN} or newer and {found}: install it, or set JAVA_HOME"
        return Finding("java", Verdict.LOOK, f"{text}; the gateway alone needs none.")
    return Finding("java", Verdict.GOOD, f"Java {version}, for Spark's jobs.")


def worst(findings: Sequence[Finding]) -> Verdict:
    """Return the worst verdict of the findings."""
    order = tuple(Verdict)
    return max((one.verdict for one in findings), key=order.index, default=Verdict.GOOD)


def _size(number: int) -> str:
    return f"{number / 2**30:,.1f} GiB" if number >= 2**30 else f"{number / 2**20:,.0f} MiB"
