"""How far each durable subscription was delivered, in a file that outlives the process.

A restart must know which messages may have been delivered. So every durable subscription that ever
had a consumer has a slot with its *mark*: every delivery whose outcome isn't durable lies below it.

Rule 1: a mark is stored before the first byte of the deliveries below it goes to a socket.
Rule 2: a store is one aligned word of a mapped file: after a kill the kernel has all stores, and
        marks are exact. After a power cut marks are worth nothing. Then only the durable flag
        counts, whether the subscription had a consumer: if so, all that it is owed was possibly
        delivered.
Rule 3: each start reads the file and puts a new one in its place. Later stores of a former owner of
        the home have no effect.

Stores and slots belong to the loop's thread; `sync` may be called on another one.
"""

import struct
import zlib
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Final, Self

import msgspec

from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.failures import POSSIBLY_DELIVERED_STEPS_MAX, PossiblyDelivered
from distributary.pipeline.tables.recovery.marks_file import MappedFile, MarksFile

#: Identifies this boot of the machine: the kernel keeps stores until the next boot.
BOOT_ID_PATH: Final = Path("/proc/sys/kernel/random/boot_id")

MAGIC: Final = b"DISPATCH"
VERSION: Final = 1
SLOT_BYTES: Final = 128
#: Slots of a new file, the header's included; the file grows by doubling.
SLOTS_MIN: Final = 512

#: magic, version, slots, boot id; then its crc. The header takes the place of slot 0.
HEADER = struct.Struct("<8sII32s")
#: key, whether the slot is in use, whether it has a consumer, the number of steps, the steps;
#: then its crc. All of a slot but its mark.
_SLOT = struct.Struct(f"<16sBBH{2 * POSSIBLY_DELIVERED_STEPS_MAX}Q")
_CRC = struct.Struct("<I")
#: The place of the mark in a slot, in words of 8 bytes.
_MARK_WORD: Final = SLOT_BYTES // 8 - 1


class Standpoint(msgspec.Struct, frozen=True):
    """A durable subscription at the start: its id, its floor, and the group that it began in."""

    subscription: str
    floor: int
    began: int = 0


class _Slot(msgspec.Struct, frozen=True):
    """The content of a slot that a former process left."""

    attached: bool
    possible: PossiblyDelivered
    mark: int


class Left(msgspec.Struct, frozen=True):
    """The content that a former process left: `slots` by key. For subscriptions without a slot,
    `unknown` tells whether all they are owed was possibly delivered."""

    slots: dict[bytes, _Slot]
    exact: bool
    unknown: bool
    found: str


class DispatchMarks:
    """The open file. `found` describes, in words, what the former process had left."""

    def __init__(self, file: MarksFile, found: str) -> None:
        self.name, self.found = file.name, found
        self._file = file
        self._slots: dict[bytes, int] = {}
        self._free: list[int] = []
        self._uncertain: dict[int, PossiblyDelivered] = {}
        self._failed: OSError | None = None
        self._map()

    @classmethod
    def open(
        cls,
        path: Path,
        standpoints: Iterable[Standpoint],
        *,
        head: int,
        next_group: int,
        owned: Callable[[], None],
    ) -> tuple[Self, dict[str, PossiblyDelivered]]:
        """Read the former process' marks and begin a new file; durable on return.

        `head` is the log's next sequence. Also returns, for each subscription, its possibly
        delivered messages. Raises StoreError when the file can't be written, and the error of
        `owned` when the home has another owner by then.
        """
        boot = _boot_id()
        file = MappedFile(path, owned)
        return cls.begin(file, boot, _read(path, boot), standpoints, head, next_group)

    @classmethod
    def begin(
        cls,
        file: MarksFile,
        boot: bytes,
        left: Left,
        standpoints: Iterable[Standpoint],
        head: int,
        next_group: int,
    ) -> tuple[Self, dict[str, PossiblyDelivered]]:
        """As `open`, for marks in any place: `left` was read there, and a new file replaces it.
        `boot` identifies this boot of the machine; empty for marks that don't outlive the
        process."""
        uncertain = {
            at.subscription: _uncertain_of(left, at, head=head, next_group=next_group)
            for at in standpoints
        }
        kept = {name: possible for name, possible in uncertain.items() if possible.steps}
        count = SLOTS_MIN
        while count < 2 * len(kept):
            count *= 2
        header = checked(HEADER.pack(MAGIC, VERSION, count, boot))
        try:
            file.make(header, count * SLOT_BYTES)
            marks = cls(file, left.found)
            for name, possible in kept.items():
                marks._uncertain[marks._take(_key(name))] = possible
            for slot in marks._uncertain:
                marks._write(slot, attached=False)
            marks.sync()
            file.publish()
        except OSError as error:
            raise StoreError(f"{file.name} can't be written: {error}") from error
        return marks, uncertain

    def attach(self, subscription: str) -> int:
        """Return the slot of a subscription that has a consumer. Durable only after `sync`; until
        then the consumer must get nothing. Raises StoreError when there is no room for a slot."""
        key = _key(subscription)
        slot = self._slots.get(key)
        if slot is None:
            slot = self._take(key)
        self._write(slot, attached=True)
        return slot

    def deliver(self, slot: int, position: int) -> None:
        """Raise the mark: messages below the position may be delivered from now on. Slot 0 belongs
        to no subscription."""
        self._marks[slot] = max(self._marks[slot], position)

    def renew(self, slot: int) -> None:
        """Clear the mark of a subscription whose new incarnation is durable: nothing was delivered
        to that incarnation."""
        self._marks[slot] = 0

    def quiet(self, slot: int) -> None:
        """Clear the slot of a subscription without consumers whose outcomes are all durable."""
        self._marks[slot] = 0
        self._write(slot, attached=False)

    def delivering(self, slot: int) -> bool:
        """Whether any message was delivered since `quiet` or `renew`."""
        return self._marks[slot] != 0

    def free(self, subscription: str) -> None:
        """Free the slot of a subscription whose end is durable."""
        slot = self._slots.pop(_key(subscription), None)
        if slot is not None:
            self._uncertain.pop(slot, None)
            begin = slot * SLOT_BYTES
            self._mapped[begin : begin + SLOT_BYTES] = bytes(SLOT_BYTES)
            self._free.append(slot)

    def sync(self) -> None:
        """Make all earlier stores durable. Raises OSError; then nothing is certain, and all later
        calls fail without a new fsync, which might succeed although the stores are lost."""
        if self._failed is not None:
            raise self._failed
        try:
            self._file.sync()
        except OSError as error:
            self._failed = error
            raise

    def close(self) -> None:
        self._marks.release()
        self._words.release()
        self._file.close()

    def _map(self) -> None:
        self._mapped = self._file.memory
        size = len(self._mapped)
        self._words = memoryview(self._mapped).cast("Q")
        self._marks = self._words[_MARK_WORD :: SLOT_BYTES // 8]
        known = {*self._slots.values(), *self._free}
        # The lowest slot is taken first.
        new = [slot for slot in range(1, size // SLOT_BYTES) if slot not in known]
        self._free = [*reversed(new), *self._free]

    def _take(self, key: bytes) -> int:
        if not self._free:
            self._grow()
        slot = self._slots[key] = self._free.pop()
        self._mapped[slot * SLOT_BYTES : slot * SLOT_BYTES + len(key)] = key
        return slot

    def _grow(self) -> None:
        """Double the slots. The new half is written, not only reserved: a store into a hole of a
        full disk would kill the process."""
        try:
            outgrown = self._file.grow(2 * len(self._mapped))
        except OSError as error:
            raise StoreError(f"{self.name} can't grow: {error}") from error
        views = (self._marks, self._words)
        self._map()
        for view in views:
            view.release()
        outgrown()

    def _write(self, slot: int, *, attached: bool) -> None:
        """Write all of a slot but its mark, in one piece."""
        begin = slot * SLOT_BYTES
        key = self._mapped[begin : begin + 16]
        steps = self._uncertain.get(slot, PossiblyDelivered()).steps
        words = [word for step in steps for word in step]
        words += [0] * (2 * POSSIBLY_DELIVERED_STEPS_MAX - len(words))
        data = checked(_SLOT.pack(key, 1, attached, len(steps), *words))
        self._mapped[begin : begin + len(data)] = data


def look(path: Path) -> tuple[str, bool]:
    """Describe the file's content, and tell whether some of it is damaged; nothing is changed.

    Raises StoreError for a file of another version. A slot that is being written looks damaged.
    """
    left = _read(path, _boot_id())
    return left.found, left.unknown and path.exists()


def _uncertain_of(left: Left, at: Standpoint, *, head: int, next_group: int) -> PossiblyDelivered:
    slot = left.slots.get(_key(at.subscription))
    if slot is None:
        return PossiblyDelivered().after_crash(
            head if left.unknown else 0, next_group, floor=at.floor
        )
    position = slot.mark if left.exact else head * slot.attached
    # Processes that died before the subscription began, or was rewound, delivered to an earlier
    # incarnation.
    possible = PossiblyDelivered(tuple(step for step in slot.possible.steps if step[1] > at.began))
    return possible.after_crash(min(position, head), next_group, floor=at.floor)


def _read(path: Path, boot: bytes) -> Left:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return left_in(None, boot, str(path))
    except OSError as error:
        raise StoreError(f"{path} can't be read: {error}") from error
    return left_in(data, boot, str(path))


def left_in(data: bytes | None, boot: bytes, name: str) -> Left:
    """Read a file's bytes; None: there is no file. Without a `boot` marks aren't exact. Raises
    StoreError for a file of another version."""
    if data is None:
        return Left({}, exact=False, unknown=True, found="there were no marks")
    header = _unchecked(data[: HEADER.size + _CRC.size])
    if header is None or not header.startswith(MAGIC):
        return Left({}, exact=False, unknown=True, found="the marks are damaged")
    _, version, count, last_boot = HEADER.unpack(header)
    if version != VERSION:
        raise StoreError(
            f"{name} is of version {version}, ours is {VERSION}. Start the program that wrote it, "
            "stop it, and remove the file; or remove it now, then all that is owed counts as "
            "delivered once"
        )
    exact = bool(boot) and last_boot == boot
    found = "marks of this boot" if exact else "marks of another boot"
    slots: dict[bytes, _Slot] = {}
    damaged = len(data) < count * SLOT_BYTES
    for begin in range(SLOT_BYTES, len(data) - SLOT_BYTES + 1, SLOT_BYTES):
        data_of_slot = data[begin : begin + SLOT_BYTES]
        if any(data_of_slot[: _SLOT.size + _CRC.size]):
            read = _read_slot(data_of_slot)
            damaged = damaged or read is None
            slots |= [read] if read else []
    if damaged:
        found += ", some damaged"
    return Left(slots, exact, unknown=damaged, found=found)


def _read_slot(data: bytes) -> tuple[bytes, _Slot] | None:
    """Read a slot in use and its key; None if it's damaged."""
    static = _unchecked(data[: _SLOT.size + _CRC.size])
    if static is None:
        return None
    key, _, attached, count, *words = _SLOT.unpack(static)
    steps = tuple(zip(words[: 2 * count : 2], words[1 : 2 * count : 2], strict=True))
    (mark,) = struct.unpack("<Q", data[-8:])
    return key, _Slot(bool(attached), PossiblyDelivered(steps), mark)


def _boot_id() -> bytes:
    """Return a hash of the boot's id; empty where the system has none: then no marks are exact."""
    try:
        text = BOOT_ID_PATH.read_text().strip()
    except OSError:
        return b""
    return blake2b(text.encode(), digest_size=32).digest()


def _key(subscription: str) -> bytes:
    return blake2b(subscription.encode(), digest_size=16).digest()


def checked(data: bytes) -> bytes:
    return data + _CRC.pack(zlib.crc32(data))


def _unchecked(data: bytes) -> bytes | None:
    """Return the data without its crc; None if the crc is wrong."""
    if len(data) < _CRC.size:
        return None
    body, crc = data[: -_CRC.size], data[-_CRC.size :]
    return body if _CRC.pack(zlib.crc32(body)) == crc else None
