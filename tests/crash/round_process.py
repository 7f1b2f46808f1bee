"""One round of many in a process of its own: its last words, and what it leaves if it failed."""

import os
import signal
import subprocess
import sys
from pathlib import Path


def run_round(
    file: str, kept: Path, number: int, *words: object, seconds: float
) -> tuple[int, str]:
    """Run that round of the program `file` with these words; its exit code and its last line. What
    it said of a failure is in its folder below `kept`. After so many seconds it has failed, and
    whatever it started is ended."""
    command = [sys.executable, file, "--round", str(number), *map(str, words)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, code = process.communicate(timeout=seconds)[0], process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, code = f"{process.communicate()[0]}\nit took more than {seconds:g} s\n", 1
    if code:
        folder = kept / f"round-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "failure.txt").write_text(said)
    return code, (said.splitlines() or ["?"])[-1]
