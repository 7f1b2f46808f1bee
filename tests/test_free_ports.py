"""Ports that tests choose and listen at later are taken by no other process."""

import subprocess
import sys
from pathlib import Path

from gateway_process import free_port

MANY = 500
PROGRAM = f"from gateway_process import free_port; print(*(free_port() for _ in range({MANY})))"


def test_two_processes_choose_no_port_in_common() -> None:
    ours = {free_port() for _ in range(MANY)}
    support = Path(__file__).parent / "support"
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=support, capture_output=True, text=True, check=True
    )
    theirs = {int(port) for port in said.stdout.split()}
    assert len(theirs) > MANY // 5
    assert not ours & theirs
