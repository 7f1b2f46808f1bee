"""Compiles `message.c`, `values.c`, `pump.c`, `frame_values.c` and `walk.c` into `ingest/_pump`
with cffi, when it is installed, as Proton itself is.

The module is linked against nothing: its `pn_*` symbols are found in Proton's own library, which
`ingest.native` loads first with its symbols made global.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
#: The sources, in the order in which one may use another.
SOURCES = ("message.c", "values.c", "pump.c", "frame_values.c", "walk.c")
#: What Python may call: the part of each source between these two lines.
BEGIN, END = "/* cdef:begin */", "/* cdef:end */"


def compile_pump() -> Path:
    """Build the extension beside its sources and return its path. Needs a C compiler."""
    from cffi import FFI  # noqa: PLC0415 (a build requirement, not there when this file is linted)

    sources = [(HERE / name).read_text() for name in SOURCES]
    builder = FFI()
    for source in sources:
        builder.cdef(source.partition(BEGIN)[2].partition(END)[0])
    builder.set_source("_pump", "\n".join(sources), extra_compile_args=["-O2"])
    return Path(builder.compile(tmpdir=str(HERE), target="_pump.*"))


class CustomBuildHook(BuildHookInterface[Any]):
    """Hatchling's hook: compile, and mark the wheel as platform-specific."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        built = compile_pump()
        (HERE / "_pump.c").unlink(missing_ok=True)
        for left in HERE.glob("_pump.o"):
            left.unlink()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"][str(built)] = f"ingest/{built.name}"
