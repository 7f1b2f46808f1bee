"""The order of system calls, read from strace's output: nothing is said before it is durable.

Rules, for a gateway with one publisher of persistent messages:

1. A disposition goes to the socket only when the fdatasync of the frames that hold all messages
   accepted so far has returned.
2. A segment is given back (renamed to a spare, or unlinked) only when `_delta_log` was synced after
   the link of the commit that holds all its groups.
3. A commit is linked only when its draft, each data file that it adds and that file's folder were
   synced.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from pipeline.tables import frame

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

#: A disposition's descriptor: described, smallulong, 0x15 (AMQP 1.0 part 2, 7.6).
_DISPOSITION = bytes.fromhex("005315")


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


def accepted_in(data: bytes) -> int:
    """How many deliveries the dispositions in these frames settle for a publisher."""
    count = at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4])
        body = data[at + 4 * data[at + 4] : at + size]
        at += max(size, 8)
        if body.startswith(_DISPOSITION):
            count += _settled_in(body[len(_DISPOSITION) :])
    return count


def _settled_in(fields: bytes) -> int:
    """last - first + 1 of a disposition whose role is receiver; `fields` is its list."""
    at = {0xC0: 3, 0xD0: 9}[fields[0]]
    role, at = fields[at] == 0x41, at + 1
    first, at = _uint(fields, at)
    last, _ = _uint(fields, at)
    return 0 if not role else 1 if last is None or first is None else last - first + 1


def _uint(data: bytes, at: int) -> tuple[int | None, int]:
    match data[at]:
        case 0x43:
            return 0, at + 1
        case 0x52:
            return data[at + 1], at + 2
        case 0x70:
            return int.from_bytes(data[at + 1 : at + 5]), at + 5
        case _:
            return None, at + 1


@dataclass(slots=True)
class Gate:
    """Goes through a trace and keeps what is durable; `wrong` is what was said too early.

    `groups` and `added` are what each version of the home's table holds: its last group, and the
    data files that it adds.
    """

    home: Path
    groups: Mapping[int, int]
    added: Mapping[int, tuple[str, ...]]
    wrong: list[str] = field(default_factory=list)
    accepted: int = 0
    recycled: int = 0
    commits: int = 0
    _written: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    _synced_at: dict[str, list[int]] = field(default_factory=dict)
    _durable: list[tuple[int, int]] = field(default_factory=list)
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
            waiting.append((call.ended, header.count))
            self._segments[call.path] = header.group

    def _sync(self, call: Call) -> None:
        for ended, count in self._written.pop(call.path, []):
            if ended < call.began:
                self._durable.append((call.ended, count))

    def _send(self, call: Call) -> None:
        self.accepted += sum(map(accepted_in, call.texts))
        durable = sum(count for at, count in self._durable if at < call.began)
        if self.accepted > durable:
            self.wrong.append(
                f"line {call.began + 1}: {self.accepted} accepted, {durable} are durable"
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
