"""What a gateway doesn't import. In a process of its own: here everything is imported already."""

import subprocess
import sys

PROGRAM = """
import sys
from distributary.ingest.cli import main
from distributary.ingest.runtime import memory
print("pyarrow" in sys.modules, "deltalake" in sys.modules)
memory.set_up()
import pyarrow as pa, pyarrow.dataset, numpy as np
assert pa.array([1, 2]).to_numpy(zero_copy_only=False).sum() == 3
assert pa.chunked_array([np.arange(3)]).to_numpy().sum() == 3
import distributary.ingest.gateway.serve
print(sorted(memory.HIDDEN & sys.modules.keys()))
"""


def test_a_gateway_works_without_what_it_needs_not() -> None:
    """pyarrow would import pandas by itself: half a second of a start, and 40 MB. The command line
    has neither pyarrow nor deltalake before the allocators are set: later they can't be."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.stdout == "False False\n[]\n", done.stderr
