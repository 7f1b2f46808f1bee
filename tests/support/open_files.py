"""The open files of this process, as the system lists them."""

from pathlib import Path


def open_below(place: Path) -> list[int]:
    """The descriptors of files at this path or below it, ascending."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            path = entry.readlink()
        except OSError:  # the list's own is closed by now
            continue
        if path == place or place in path.parents:
            found.append(int(entry.name))
    return sorted(found)
