"""A journal whose folder can't be synced, by a system call that fails for real."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from distributary.pipeline.tables.journal.journal import Journal

#: The third fsync is the folder's, after the one of its parent and that of a spare file.
FAILS = ("-e", "trace=fsync", "-e", "inject=fsync:error=ENOSPC:when=3")
APPENDS = """
import sys
from pathlib import Path
from table_groups import bodies, group, run
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.journal import Journal
journal = Journal.open(Path(sys.argv[1]), segment_bytes=64 * 1024)
for _ in range(2):
    try:
        journal.append(frame.encode(group(1, 0, run("t", bodies(3, 300)))))
    except StoreError as error:
        print(error)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace makes a system call fail")
def test_a_folder_whose_names_cannot_be_synced_ends_the_journal(tmp_path: Path) -> None:
    """The first append says why, and the next one the same; a restart begins anew."""
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", *FAILS]
    support = str(Path(__file__).parents[3] / "support")
    program = f"import sys; sys.path.insert(0, {support!r})\n{APPENDS}"
    home = tmp_path / "journal"
    told = subprocess.run(
        [*strace, sys.executable, "-c", program, home], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert len(told) == 2
    assert told[0] == told[1]
    assert "fsync of the folder failed (No space left on device)" in told[0]
    again = Journal.open(home, segment_bytes=64 * 1024)
    assert not again.frames()
    again.close()
