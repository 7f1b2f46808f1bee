"""Compilation of the C files of this folder into `ingest/native/_pump` with cffi, at installation,
as for Proton itself. Their numbers of AMQP's encoding are generated from
`pipeline.codec.amqp_codes`, the tables of `guard.c` from `pipeline.amqp.endpoint_states`.

The module is linked against nothing: its `pn_*` symbols are found in Proton's own library, which
`ingest.native.pump_library` loads first with its symbols made global.
"""

import sys
from enum import IntEnum
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
#: The sources, in the order in which one may use another.
SOURCES = (
    *("interpreter.c", "message.c", "values.c", "pump.c", "outgoing.c"),
    *("traces.c", "frame_values.c", "guard.c", "walk.c"),
)
#: Bit of a table's cell that has the place of a violation instead of a state.
REFUSED = 1 << 7
#: The lines around the part of each source that Python may call.
BEGIN, END = "/* cdef:begin */", "/* cdef:end */"


def compile_pump(folder: Path = HERE, flags: tuple[str, ...] = ("-O2",)) -> Path:
    """Build the extension in a folder, by default beside its sources, and return its path. Needs a
    C compiler, and gives it the flags."""
    from cffi import FFI  # noqa: PLC0415 (a build requirement, not there when this file is linted)

    sources = [(HERE / name).read_text() for name in SOURCES]
    builder = FFI()
    for source in sources:
        builder.cdef(source.partition(BEGIN)[2].partition(END)[0])
    whole = "\n".join([codec_tables(), endpoint_tables(), *sources])
    given = [*flags]
    builder.set_source("_pump", whole, extra_compile_args=given, extra_link_args=given)
    return Path(builder.compile(tmpdir=str(folder), target="_pump.*"))


def codec_tables() -> str:
    """Return the numbers of `pipeline.codec.amqp_codes` in C: format codes (constructors) as
    F_NAME, others by their names, widths by the high half of a format code; and the places of a
    section's fields."""
    sys.path.insert(0, str(HERE.parents[2]))  # the build has no package of ours installed
    from distributary.pipeline.codec import amqp_codes as codes  # noqa: PLC0415
    from distributary.pipeline.codec import amqp_types as types  # noqa: PLC0415
    from distributary.pipeline.codec import sections  # noqa: PLC0415

    named = {f"F_{name}": code for name, code in codes.CONSTRUCTORS.items()}
    named |= {one.name: int(one) for enum in (codes.Descriptor, codes.Kind) for one in enum}
    named |= {"CONTAINERS": codes.CONTAINERS, "ARRAYS": codes.ARRAYS}
    named |= {"DEPTH_MAX": types.DEPTH_MAX, "EMPTY_ELEMENTS_MAX": types.EMPTY_ELEMENTS_MAX}
    for section, fields in (
        ("HEADER", sections.HEADER_FIELDS),
        ("PROPERTIES", sections.PROPERTIES_FIELDS),
    ):
        named |= {f"{section}_{name.upper()}": at for at, (name, _) in enumerate(fields)}
        named[f"{section}_FIELDS"] = len(fields)
    by_kind = sorted(codes.SECTION_SYMBOLS, key=codes.SECTION_SYMBOLS.__getitem__)
    names = ", ".join(f'"{symbol}"' for symbol in by_kind)
    return "\n".join(
        [
            "#include <stdint.h>",
            f"enum {{{', '.join(f'{name} = {number}' for name, number in named.items())}}};",
            "/* Of a value of fixed width, its constructor included; of the size of any other. */",
            f"static const uint8_t fixed_bytes[] = {_initializer([*codes.FIXED_BYTES[::16]])};",
            f"static const uint8_t size_bytes[] = {_initializer([*codes.SIZE_BYTES[::16]])};",
            f"static const char *const section_names[] = {{{names}}};",
        ]
    )


def endpoint_tables() -> str:
    """Return the tables of `pipeline.amqp.endpoint_states` in C: rows by `Kind`, columns by state.
    A cell is the state after the frame, or REFUSED with the violation's place in `VIOLATIONS`."""
    sys.path.insert(0, str(HERE.parents[2]))  # the build has no package of ours installed
    from distributary.pipeline.amqp import endpoint_states as states  # noqa: PLC0415

    enums: tuple[tuple[str, type[IntEnum]], ...] = (
        ("KIND", states.Kind),
        ("CONNECTION", states.ConnectionState),
        ("SESSION", states.SessionState),
        ("LINK", states.LinkState),
        ("TYPE", states.Type),
    )
    lines = [f"#define REFUSED {REFUSED}"]
    lines += [f"#define {name}_{one.name} {one.value}" for name, enum in enums for one in enum]
    lines += [f"#define VIOLATION_{one.name} {i}" for i, one in enumerate(states.VIOLATIONS)]
    lines.append(f"#define HANDLE_MAX {states.HANDLE_MAX}u")
    lines.append(f"#define FIELDS_MOST {max(map(len, states.FIELDS.values()))}")
    lines += [
        f"#define {states.NAMES[code].upper()}_{name.upper()} {i}"
        for code, fields in states.FIELDS.items()
        for i, name in enumerate(fields)
    ]
    for name, table, width in (
        ("connection_rules", states.CONNECTION, len(states.ConnectionState)),
        ("session_rules", states.SESSION, len(states.SessionState)),
        ("link_rules", states.LINK, len(states.LinkState)),
    ):
        cells = [[_cell(cell, states) for cell in table.get(kind, [0xFF] * width)]
                 for kind in states.Kind]  # fmt: skip
        lines.append(f"static const uint8_t {name}[][{width}] = {_initializer(cells)};")
    counts = [len(states.FIELDS[code]) for code in sorted(states.FIELDS)]
    rules = [[[*field] for field in states.FIELDS[code].values()] or [[0]]
             for code in sorted(states.FIELDS)]  # fmt: skip
    lines.append(f"static const int field_counts[] = {_initializer(counts)};")
    lines.append("typedef struct { uint8_t place, type, mandatory; } field_rule;")
    lines.append(f"static const field_rule field_rules[][FIELDS_MOST] = {_initializer(rules)};")
    return "\n".join(lines)


def _cell(cell: Any, states: Any) -> int:
    if isinstance(cell, states.Violation):
        return REFUSED | int(states.VIOLATIONS.index(cell))
    return int(cell)


def _initializer(value: Any) -> str:
    """Return numbers, and lists of them, in the form of C's initializers."""
    if isinstance(value, list):
        return "{" + ", ".join(map(_initializer, value)) + "}"
    return str(int(value))


class CustomBuildHook(BuildHookInterface[Any]):
    """Hatchling's hook: it compiles, and marks the wheel as platform-specific. The wheel takes the
    compiled file from its place beside its sources (`artifacts`)."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        compile_pump()
        (HERE / "_pump.c").unlink(missing_ok=True)
        for left in HERE.glob("_pump.o"):
            left.unlink()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
