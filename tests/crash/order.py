"""The order of system calls, read from strace's output: nothing is said before it is durable.

Rules, for a gateway with publishers of persistent messages and links of durable subscriptions:

1. A disposition goes to the socket only when the fdatasync of the frames that hold all messages
   accepted so far has returned.
2. A segment is given back (renamed to a spare, or unlinked) only when `_delta_log` was synced after
   the link of the commit that holds all its groups.
3. A commit is linked only when its draft, each data file that it adds and that file's folder were
   synced.
4. The answer to a link that makes a durable subscription or a queue goes to the socket only when
   the fdatasync of the frame with its `created` record has returned; so the answer to the close
   that ends a subscription, and its `deleted` record.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import msgspec
from gateway_codec import decode
from gateway_frames import ATTACH, DETACH, DISPOSITION

from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.journal import frame

CALLS = (
    "pwritev,pwritev2,pwrite64,fdatasync,fsync,rename,renameat,unlink,unlinkat,link,linkat,"
    "sendto,sendmsg,write"
)
#: What goes in front of a command to get a trace that `read` understands, into the file after it.
STRACE = ("strace", "-f", "-y", "-qq", "-xx", "-s", "8192", "-e", f"trace={CALLS}", "-o")

_LINE = re.compile(r"^(\d+)\s+(.*)$")
_BEGUN = re.compile(r"^(\w+)\((.*)<unfinished \.\.\.>$")
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>(.*)$")
_WHOLE = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)")
_RESULT = re.compile(r"\)\s+= (-?\d+)")
_FD = re.compile(r"^(?:AT_FDCWD<[^>]*>, )?\d+<([^>]*)>")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


@dataclass(frozen=True, slots=True)
class Call:
    """One system call: when it began and when it had returned, as places in the trace."""

    name: str
    path: str
    texts: tuple[bytes, ...]
    began: int
    ended: int


def read(lines: Iterable[str]) -> list[Call]:
    """The calls that succeeded, by when they began."""
    open_calls: dict[str, tuple[str, str, int]] = {}
    calls: list[Call] = []
    for place, line in enumerate(lines):
        if not (found := _LINE.match(line)):
            continue
        thread, text = found.groups()
        if begun := _BEGUN.match(text):
            open_calls[thread] = (begun[1], begun[2], place)
        elif resumed := _RESUMED.match(text):
            name, arguments, began = open_calls.pop(thread, ("", "", place))
            result = _RESULT.search(resumed[2])
            if name and result and int(result[1]) >= 0:
                calls.append(_call(name, arguments + resumed[2], began, place))
        elif (whole := _WHOLE.match(text)) and int(whole[3]) >= 0:
            calls.append(_call(whole[1], whole[2], place, place))
    return sorted(calls, key=lambda call: call.began)


def _call(name: str, arguments: str, began: int, ended: int) -> Call:
    texts = tuple(bytes.fromhex(t.replace("\\x", "")) for t in _TEXT.findall(arguments))
    of_fd = _FD.match(arguments)
    return Call(name, unescaped(of_fd[1]) if of_fd else "", texts, began, ended)


def unescaped(path: str) -> str:
    """A path as -xx writes it."""
    return re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), path)


@dataclass(frozen=True, slots=True)
class Said:
    """One performative that the gateway wrote, with its channel."""

    code: int
    channel: int
    fields: list[object]


def said_in(data: bytes) -> Iterator[Said]:
    """The performatives of whole frames (strace cuts long writes; what it cut is passed over)."""
    at = 0
    while at + 8 <= len(data) and (size := int.from_bytes(data[at : at + 4])) >= 8:
        body = data[at + 4 * data[at + 4] : at + size]
        if data[at + 5] == 0 and body and at + size <= len(data):
            performative, _ = decode(body)
            channel = int.from_bytes(data[at + 6 : at + 8])
            yield Said(performative.descriptor, channel, performative.value)
        at += size


def accepted_in(data: bytes) -> int:
    """How many deliveries the dispositions in these frames settle for a publisher."""
    return sum(map(_accepted, said_in(data)))


def _accepted(said: Said) -> int:
    if said.code != DISPOSITION or said.fields[0] is not True:
        return 0
    _, first, last = said.fields[:3]
    assert isinstance(first, int)
    return 1 + (last - first if isinstance(last, int) else 0)


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame of the journal: when its write had returned, its messages, its bytes."""

    written: int
    messages: int
    data: bytes


@dataclass(slots=True)
class Gate:
    """Goes through a trace and keeps what is durable; `wrong` is what was said too early.

    `groups` and `added` are what each version of the home's table holds: its last group, and the
    data files that it adds. `made_by` says which subscription a link of that name makes, `ended_by`
    which one its close ends.
    """

    home: Path
    groups: Mapping[int, int]
    added: Mapping[int, tuple[str, ...]]
    made_by: Mapping[str, str]
    ended_by: Mapping[str, str]
    wrong: list[str] = field(default_factory=list)
    accepted: int = 0
    recycled: int = 0
    commits: int = 0
    answered: int = 0
    _written: dict[str, list[_Frame]] = field(default_factory=dict)
    _synced_at: dict[str, list[int]] = field(default_factory=dict)
    _durable: list[tuple[int, _Frame]] = field(default_factory=list)
    _names: dict[tuple[str, int, int], str] = field(default_factory=dict)
    _linked: list[tuple[int, int]] = field(default_factory=list)
    _segments: dict[str, int] = field(default_factory=dict)

    def go(self, calls: Iterable[Call]) -> "Gate":
        calls = list(calls)
        for call in calls:
            if call.name in {"fsync", "fdatasync"}:
                self._synced_at.setdefault(call.path, []).append(call.ended)
        for call in calls:
            if call.name.startswith("pwrite"):
                self._write(call)
            elif call.name == "fdatasync":
                self._sync(call)
            elif call.name in {"sendto", "sendmsg", "write"} and "socket:" in call.path:
                self._send(call)
            elif call.name.startswith("link"):
                self._link(call)
            elif call.name.startswith(("rename", "unlink")):
                self._give_back(call)
        return self

    def _write(self, call: Call) -> None:
        header = frame.read_header(call.texts[0]) if call.texts else None
        if call.path.endswith(".journal") and header is not None:
            waiting = self._written.setdefault(call.path, [])
            waiting.append(_Frame(call.ended, header.count, b"".join(call.texts)))
            self._segments[call.path] = header.group

    def _sync(self, call: Call) -> None:
        for one in self._written.pop(call.path, []):
            if one.written < call.began:
                self._durable.append((call.ended, one))

    def _send(self, call: Call) -> None:
        durable = [one for at, one in self._durable if at < call.began]
        for said in (one for text in call.texts for one in said_in(text)):
            self.accepted += _accepted(said)
            if said.code in (ATTACH, DETACH):
                self._answer(call, said, durable)
        messages = sum(one.messages for one in durable)
        if self.accepted > messages:
            self.wrong.append(
                f"line {call.began + 1}: {self.accepted} accepted, {messages} are durable"
            )

    def _answer(self, call: Call, said: Said, durable: Iterable[_Frame]) -> None:
        """An attach names its link, a detach only its handle."""
        handle = said.fields[1 if said.code == ATTACH else 0]
        assert isinstance(handle, int)
        place = (call.path, said.channel, handle)
        if said.code == ATTACH:
            name = self._names[place] = str(said.fields[0])
            event, subscription = SubscriptionEvent.CREATED, self.made_by.get(name)
        else:
            name, closed = self._names.pop(place), said.fields[1:2] == [True]
            event = SubscriptionEvent.DELETED
            subscription = self.ended_by.get(name) if closed else None
        if subscription is None:
            return
        self.answered += 1
        record = msgspec.msgpack.encode(event.value) + msgspec.msgpack.encode(subscription)
        if not any(record in one.data for one in durable):
            self.wrong.append(
                f"line {call.began + 1}: link {name} is answered, no durable frame says that "
                f"{subscription} is {event.value}"
            )

    def _link(self, call: Call) -> None:
        source, target = (text.decode() for text in call.texts[-2:])
        log = str(self.home / "tables/topic_log/_delta_log")
        if not re.fullmatch(rf"{re.escape(log)}/\d{{20}}\.json", target):
            return
        self.commits += 1
        version = int(Path(target).stem)
        self._linked.append((call.ended, version))
        table = Path(target).parents[1]
        needed = [source]
        for name in self.added[version]:
            needed += [str(table / name), str((table / name).parent)]
        for path in needed:
            if not self._synced(path, before=call.began):
                self.wrong.append(
                    f"line {call.began + 1}: version {version} is linked, {path} isn't synced"
                )

    def _synced(self, path: str, *, before: int, after: int = -1) -> bool:
        return any(after < at < before for at in self._synced_at.get(path, ()))

    def _give_back(self, call: Call) -> None:
        source = call.texts[0].decode() if call.texts else ""
        last = self._segments.pop(source, None)
        if last is None:
            return
        self.recycled += 1
        log = str(Path(source).parents[1] / "tables/topic_log/_delta_log")
        durable = [
            self.groups[version]
            for at, version in self._linked
            if self._synced(log, before=call.began, after=at)
        ]
        if max(durable, default=0) < last:
            self.wrong.append(
                f"line {call.began + 1}: {source} with group {last} is given back, "
                f"{max(durable, default=0)} is the last one in the table"
            )


def commits_of(home: Path) -> tuple[dict[int, int], dict[int, tuple[str, ...]]]:
    """By version: the last group that topic_log holds, and the data files that the version adds."""
    groups: dict[int, int] = {}
    added: dict[int, tuple[str, ...]] = {}
    for path in sorted((home / "tables/topic_log/_delta_log").glob("[0-9]*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        version = int(path.stem)
        txns = [a["txn"] for a in actions if "txn" in a]
        last = [txn["version"] for txn in txns if txn["appId"] == "journal"]
        groups[version] = last[0] if last else groups.get(version - 1, 0)
        added[version] = tuple(unquote(a["add"]["path"]) for a in actions if "add" in a)
    return groups, added
