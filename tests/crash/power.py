"""A power cut, after the fact: builds the folder that the disk would hold.

The shadow that `faults.c` keeps says what was synced: contents by file, names by folder. Strictly
only that is left. With a draw, pages and names that weren't synced reach the disk or not, each by
itself, as a disk and a file system are free to do; but a file that was renamed has its old name or
its new one, as file systems that keep a journal promise.
"""

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

PAGE_BYTES = 4096
#: The number that the shadow gives the home itself.
ROOT = 1


@dataclass(slots=True)
class _Disk:
    """The home as it was in memory, by the numbers that the shadow gives files."""

    shadow: Path
    draw: random.Random | None
    contents: dict[int, Path] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=dict)


def rebuild(home: Path, shadow: Path, draw: random.Random | None = None) -> None:
    """Replace the home by what a power cut leaves of it."""
    disk = _Disk(shadow, draw)
    _look(disk, home, _numbers(shadow), [0])
    made = home.with_name(f"{home.name}.after")
    shutil.rmtree(made, ignore_errors=True)
    _make(disk, ROOT, made)
    shutil.rmtree(home)
    made.rename(home)


def _numbers(shadow: Path) -> dict[int, int]:
    numbers: dict[int, int] = {}
    for line in (shadow / "map").read_text().splitlines():
        inode, number = map(int, line.split())
        numbers[inode] = number
    return {inode: number for inode, number in numbers.items() if number}


def _look(disk: _Disk, path: Path, numbers: dict[int, int], unknown: list[int]) -> int:
    """Note what stands at the path; its number, below zero if the shadow doesn't know it."""
    inode = path.stat().st_ino
    if inode not in numbers:
        unknown[0] -= 1
        numbers[inode] = unknown[0]
    number = numbers[inode]
    if path.is_dir():
        children = sorted(path.iterdir())
        disk.names[number] = {c.name: _look(disk, c, numbers, unknown) for c in children}
    else:
        disk.contents[number] = path
    return number


def _synced_names(disk: _Disk, number: int) -> tuple[dict[str, int], set[int]]:
    """The names that were synced in a folder, and which of them are folders."""
    names: dict[str, int] = {}
    folders: set[int] = set()
    listing = disk.shadow / "dirs" / str(number)
    for line in listing.read_text().splitlines() if listing.exists() else ():
        child, kind, name = line.split(" ", 2)
        names[name] = int(child)
        if kind == "d":
            folders.add(int(child))
    return names, folders


def _make(disk: _Disk, number: int, path: Path) -> None:
    names, folders = _synced_names(disk, number)
    if disk.draw is not None:
        names = _some_names(disk.draw, names, disk.names.get(number, names))
        folders |= disk.names.keys()
    path.mkdir()
    for name, child in names.items():
        if child in folders:
            _make(disk, child, path / name)
        else:
            (path / name).write_bytes(_content(disk, child))


def _some_names(draw: random.Random, synced: dict[str, int], now: dict[str, int]) -> dict[str, int]:
    """The synced names with some of the changes since: for each file all of them or none."""
    names = dict(synced)
    for child in sorted({*synced.values(), *now.values()}):
        before = {name for name, number in synced.items() if number == child}
        after = {name for name, number in now.items() if number == child}
        if before == after or draw.random() < 0.5:
            continue
        for name in before - after:
            if names.get(name) == child:
                del names[name]
        names.update(dict.fromkeys(after, child))
    return names


def _content(disk: _Disk, number: int) -> bytes:
    kept = disk.shadow / "inodes" / str(number)
    synced = kept.read_bytes() if kept.exists() else b""
    if disk.draw is None or number not in disk.contents:
        return synced
    now = disk.contents[number].read_bytes()
    if now == synced:
        return synced
    size = disk.draw.choice((len(synced), len(now)))
    pages = []
    for at in range(0, size, PAGE_BYTES):
        pages.append(disk.draw.choice((synced, now))[at : at + PAGE_BYTES])
        pages[-1] = pages[-1].ljust(min(PAGE_BYTES, size - at), b"\0")[: size - at]
    return b"".join(pages)
