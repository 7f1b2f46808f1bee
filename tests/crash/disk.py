"""A small disk of its own under one folder: a tmpfs in a mount namespace, which needs no rights.

Where namespaces aren't allowed there is none, and the caller has to do with injected errors.
"""

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

_SCRIPT = 'mount -t tmpfs -o size="$1"m none "$0" && echo mounted && exec sleep 86400'


class SmallDisk:
    """A file system of so many MiB at `at`, seen by what is started with `command` in front."""

    def __init__(self, at: Path, megabytes: int) -> None:
        at.mkdir(parents=True, exist_ok=True)
        self._at = at
        self._holder = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", _SCRIPT, at, str(megabytes)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._holder.stdout is not None
        self.mounted = self._holder.stdout.readline() == b"mounted\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()
        self._holder.wait()
        if self._holder.stdout is not None:
            self._holder.stdout.close()

    @property
    def command(self) -> tuple[str, ...]:
        target = str(self._holder.pid)
        return ("nsenter", "-t", target, "-U", "-m", "--preserve-credentials")

    @property
    def outside(self) -> Path:
        """The folder as other processes see it."""
        return Path(f"/proc/{self._holder.pid}/root{self._at}")

    @property
    def _ballast(self) -> Path:
        return self.outside / "ballast"

    def fill(self, *, but: int = 0) -> None:
        """Leave room for so many bytes, by default not for a single page."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(bytes(4096)) == 4096:
                pass
        os.truncate(self._ballast, self._ballast.stat().st_size - but)

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)
