"""Modules that a gateway doesn't import. In a process of its own: here all are imported already."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from distributary.ingest.cli import main
from distributary.ingest.runtime import memory
print("pyarrow" in sys.modules, "deltalake" in sys.modules)
memory.set_up()
import os, numpy as np
print(len(os.listdir("/proc/self/task")))
import pyarrow as pa, pyarrow.dataset
assert pa.array([1, 2]).to_numpy(zero_copy_only=False).sum() == 3
assert pa.chunked_array([np.arange(3)]).to_numpy().sum() == 3
import distributary.ingest.gateway.serve
print(sorted(memory.HIDDEN & sys.modules.keys()))
"""


def test_a_gateway_works_without_what_it_needs_not() -> None:
    """pyarrow would import pandas by itself: half a second of a start, and 40 MB. The command line
    has neither pyarrow nor deltalake before the allocators are set: later they can't be. numpy's
    BLAS starts no thread."""
    left = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, env=left
    )
    assert done.stdout == "False False\n1\n[]\n", done.stderr


#: What a start has no use for: it comes with the first link, the first request, the first scrape,
#: the first message with a schema.
LATER = """
import sys
from distributary.ingest.runtime import memory
memory.set_up()
import distributary.ingest.gateway.serve
later = {"pyarrow", "numpy", "h11", "prometheus_client", "email", "http", "urllib.request"}
later |= {"distributary.pipeline.schemas.column_types"}
print(sorted(later & sys.modules.keys()))
"""

#: What the process that encodes commits hides from Arrow, it hides in time.
BUILDER = """
import sys
from distributary.ingest.commit import builder_process
from distributary.ingest.runtime import memory
print(sorted(memory.HIDDEN & sys.modules.keys()))
"""

#: Spark's executors may have nothing but the wheel and what Spark itself asks for. Typed rows need
#: more: the readers of the extra `schemas`.
TRANSFORMS = """
import sys
from importlib import import_module
from pkgutil import walk_packages
import distributary.pipeline.transforms as transforms
for one in walk_packages(transforms.__path__, transforms.__name__ + "."):
    if not one.name.startswith("distributary.pipeline.transforms.typed"):
        import_module(one.name)
print("msgspec" in sys.modules)
"""


@pytest.mark.parametrize(
    ("program", "found"), [(LATER, "[]"), (BUILDER, "[]"), (TRANSFORMS, "False")]
)
def test_who_imports_what(program: str, found: str) -> None:
    """A start loads what it serves with; transforms, which make dataclasses and no structs, load no
    msgspec."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{found}\n", done.stderr
